"""``pitstop run``: a script in earnest, unedited, with kept changes or a guard against NaN."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.guard.plan import BEGIN as GUARD
from pitstop.guard.plan import POLICIES, SEEN, GuardPlan, Policy
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options
from pitstop.profile.start.reached import why_unseen
from pitstop.tune.change import find_change
from pitstop.tune.checked import label
from pitstop.tune.plan import BEGIN, Outcome, Plan, Wanted, read_outcomes
from pitstop.tune.tuned import read_tuned

EXAMPLES = """\b
Examples:
  pitstop run --with tuned.toml train.py --lr 1e-4
  pitstop run --with tuned.toml -m mypackage.train configs/a.yaml
  pitstop run --with tuned.toml --nproc-per-node 2 train.py
  pitstop run --guard skip train.py

\b
Nothing is recorded, redirected or seeded. Output, files and exit code are the script's own; a
change that does not take hold, or fails and is taken off, is said on stderr. A run that ends well,
but in which no change took hold, ends with exit code 2.

\b
--guard looks at all gradients before each step of an optimizer. A step with a NaN or an infinity
  skip     is left out, running statistics included; 10 in a row end the run
  rewind   is left out, and the weights go back to those of at most 100 steps ago
  stop     ends the run with an error, before the step
Its batch is given once more, and that step is looked at closely: stderr names the operation, the
line and the samples.
"""
NOTHING_APPLIED = 2  # as of what could not run: it was a run without Pitstop


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option(
    "--with",
    "tuned",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file of kept changes that `pitstop tune` wrote.",
)
@click.option(
    "--guard",
    type=click.Choice(POLICIES),
    help="What to do about a step whose gradients or loss are not finite.",
)
@click.option("--nproc-per-node", type=click.IntRange(min=1), help="Start it through torchrun.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(
    tuned: Path | None,
    guard: Policy | None,
    nproc_per_node: int | None,
    module: bool,
    script: tuple[str, ...],
) -> int:
    """Run SCRIPT with its ARGS, changed or guarded from outside."""
    if not (tuned or guard):
        raise PitstopError("nothing to do: give --with FILE, --guard POLICY, or both")
    kept = read_tuned(tuned) if tuned else ()
    if tuned:
        _prepare(kept)
    words = launch.command_line(script, module, nproc_per_node)
    with tempfile.TemporaryDirectory(prefix="pitstop-run-") as folder:
        also = [(BEGIN, Plan(kept, earnest=True, folder=folder).to_json())] if kept else []
        if guard:
            also.append((GUARD, GuardPlan(guard, folder).to_json()))
        code = launch.run(words, Options(folder, also=tuple(also), record=False))
        outcomes = read_outcomes(Path(folder))
        unseen = why_unseen(Path(folder))
        guarded = any(Path(folder).glob(f"{SEEN}-*"))
    if kept:
        applied = _tell(outcomes, unseen)
        code = code or applied
    if guard and not guarded:
        say(f"pitstop: nothing was guarded: {unseen or 'no optimizer of torch took a step'}")
        code = code or NOTHING_APPLIED
    return launch.end_like(code)


def _prepare(kept: Iterable[Wanted]) -> None:
    """Look each change up before anything starts, and set what must be set before Python is."""
    for wanted in kept:
        change = find_change(wanted.name)
        if change.environment:
            os.environ.update(change.environment(wanted.options))
    if not kept:
        raise PitstopError("the file holds no change: run the script by itself")


def _tell(outcomes: Sequence[Outcome], unseen: str) -> int:
    """Say which changes did not take hold. A run in which none did was one without Pitstop."""
    if any(each.applied for each in outcomes):
        for each in outcomes:
            if each.declined and not each.failed:
                say(f"pitstop: {_name(each)} did not take hold: {printable(each.declined)}")
        return 0
    declined = [f"{_name(each)}: {each.declined}" for each in outcomes]
    reasons = "; ".join(declined) or unseen or "the run ended before any could take hold"
    say(f"pitstop: no change was applied: {printable(reasons)}")
    return NOTHING_APPLIED


def _name(outcome: Outcome) -> str:
    return label(Wanted(outcome.name, outcome.options))
