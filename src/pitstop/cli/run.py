"""``pitstop run``: a script in earnest, unedited, with the changes that a search has kept."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.profile import launch
from pitstop.profile.options import Options
from pitstop.profile.reached import why_unseen
from pitstop.tune.change import find_change
from pitstop.tune.plan import BEGIN, Outcome, Plan, Wanted, read_outcomes
from pitstop.tune.track import label
from pitstop.tune.tuned import read_tuned

EXAMPLES = """\b
Examples:
  pitstop run --with tuned.toml train.py --lr 1e-4
  pitstop run --with tuned.toml -m mypackage.train configs/a.yaml
  pitstop run --with tuned.toml --nproc-per-node 2 train.py

\b
Nothing is recorded, redirected or seeded. Output, files and exit code are the script's own; a
change that does not take hold, or fails and is taken off, is said on stderr. A run that ends well,
but in which no change took hold, ends with exit code 2.
"""
NOTHING_APPLIED = 2  # as of what could not run: it was a run without Pitstop


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option(
    "--with",
    "tuned",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file of kept changes that `pitstop tune` wrote.",
)
@click.option("--nproc-per-node", type=click.IntRange(min=1), help="Start it through torchrun.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(tuned: Path, nproc_per_node: int | None, module: bool, script: tuple[str, ...]) -> int:
    """Run SCRIPT with its ARGS, and with the changes of a file applied from outside."""
    kept = read_tuned(tuned)
    _prepare(kept)
    words = launch.command_line(script, module, nproc_per_node)
    with tempfile.TemporaryDirectory(prefix="pitstop-run-") as folder:
        also = ((BEGIN, Plan(kept, earnest=True, folder=folder).to_json()),)
        options = Options(folder, also=also, record=False)
        code = launch.run(words, options)
        outcomes = read_outcomes(Path(folder))
        unseen = why_unseen(Path(folder))
    if not any(each.applied for each in outcomes):
        _tell_in_vain(outcomes, unseen)
        code = code or NOTHING_APPLIED
    else:
        for outcome in outcomes:
            _tell(outcome)
    return launch.end_like(code)


def _prepare(kept: Iterable[Wanted]) -> None:
    """Look each change up before anything starts, and set what must be set before Python is."""
    for wanted in kept:
        change = find_change(wanted.name)
        if change.environment:
            os.environ.update(change.environment(wanted.options))
    if not kept:
        raise PitstopError("the file holds no change: run the script by itself")


def _tell(outcome: Outcome) -> None:
    if outcome.declined and not outcome.failed:
        say(f"pitstop: {_name(outcome)} did not take hold: {printable(outcome.declined)}")


def _tell_in_vain(outcomes: Iterable[Outcome], unseen: str) -> None:
    """Nothing of ours was in this run, of which its user must hear: it was one without Pitstop."""
    declined = [f"{_name(each)}: {each.declined}" for each in outcomes]
    reasons = "; ".join(declined) or unseen or "the run ended before any could take hold"
    say(f"pitstop: no change was applied: {printable(reasons)}")


def _name(outcome: Outcome) -> str:
    return label(Wanted(outcome.name, outcome.options))
