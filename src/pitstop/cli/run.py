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
change that does not take hold is said on stderr at the end.
"""


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
    launcher = launch.is_launcher(script) or nproc_per_node is not None
    with tempfile.TemporaryDirectory(prefix="pitstop-run-") as folder:
        also = ((BEGIN, Plan(kept, folder=folder).to_json()),)
        options = Options(folder, also=also, record=False, launcher=launcher)
        code = launch.run(words, options)
        for outcome in read_outcomes(Path(folder)):
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
    if outcome.declined:
        name = label(Wanted(outcome.name, outcome.options))
        say(f"pitstop: {name} did not take hold: {printable(outcome.declined)}")
