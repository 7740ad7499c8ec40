"""``pitstop prove``: whether an edit is faster than its base, and computes the same."""

import shlex
from pathlib import Path

import click

from pitstop.cli.main import COULD_NOT_RUN, INTERRUPTED
from pitstop.cli.numbers import finite
from pitstop.cli.output import Output, output_options
from pitstop.core.report import Proved
from pitstop.core.secrets import masked_words
from pitstop.profile.start import launch
from pitstop.prove.proof import Asked, prove
from pitstop.prove.story import build_report
from pitstop.tune.change import Goal
from pitstop.tune.first_run import check_that_files_are_safe
from pitstop.tune.guard.verdict import FLOORS
from pitstop.tune.pit_stop import ended_as_by_ctrl_c, own_quantities
from pitstop.tune.screen import screen
from pitstop.tune.session import BUDGET_MINUTES

EXIT: dict[Proved, int] = {
    "better": 0,
    "worse": 1,
    "": COULD_NOT_RUN,
    "inconclusive": 3,
    "same": 4,
    "drifted": 5,
}

EXAMPLES = """\b
Examples:
  pitstop prove -- train.py --lr 1e-4                the working tree against HEAD
  pitstop prove --base main -- train.py              against another revision
  pitstop prove --patch tuned.patch -- train.py      HEAD with a patch against HEAD
  pitstop prove --for memory --metric 'psnr=(\\S+)' -- train.py
  pitstop prove --output proof.md -- -m mypackage.train configs/a.yaml

\b
Both sides run in copies: your files, index and branches stay as they are.
Exit code: 0 better, 1 worse, 2 could not run, 3 inconclusive, 4 same, 5 drifted:
it computes something else.
"""


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("--base", default="HEAD", show_default=True, metavar="REV", help="What to beat.")
@click.option(
    "--patch",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Prove this patch of the base, not the working tree.",
)
@click.option("--for", "goal", type=click.Choice(["time", "memory"]), default="time")
@click.option("--metric", "metrics", multiple=True, help="A number to guard: 'psnr=(\\S+)'.")
@click.option("--lower-better", multiple=True, metavar="NAME", help="Of --metric: lower is better.")
@click.option(
    "--precision",
    type=click.Choice(sorted(FLOORS)),
    default=None,
    help="What the edit may round to; else what the base computes in.",
)
@click.option("--steps", type=click.IntRange(min=5), help="Steps of a run; else by their time.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=BUDGET_MINUTES,
    show_default=True,
    callback=finite,
    help="Minutes at most.",
)
@click.option("--in-place", is_flag=True, help="Let runs write where the script writes.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
@output_options
def command(
    base: str,
    patch: Path | None,
    goal: Goal,
    metrics: tuple[str, ...],
    lower_better: tuple[str, ...],
    precision: str | None,
    steps: int | None,
    budget: float,
    in_place: bool,
    module: bool,
    script: tuple[str, ...],
    output: Output,
) -> int:
    """Is your edit faster than the base revision, and does it compute the same? Prove it."""
    if script[:1] == ("-m",):  # behind a --, as one types it to Python
        module, script = True, script[1:]
    words = tuple(launch.command_line(script, module, None))
    asked = Asked(
        words,
        base,
        patch,
        goal,
        tuple(own_quantities(metrics, lower_better)),
        precision or "",
        steps,
        60 * budget,
        in_place,
    )
    check_that_files_are_safe(in_place)
    with ended_as_by_ctrl_c(), screen() as shown:
        proof = prove(asked, shown)
    typed = (*(["-m"] if module else []), *script)
    report = build_report(proof, shlex.join(masked_words(typed)), budget)
    output.write(report)
    return INTERRUPTED if proof.interrupted else EXIT[report.proved]
