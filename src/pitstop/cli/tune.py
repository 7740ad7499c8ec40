"""``pitstop tune``: which changes make a script faster? Tried on it, guarded, proved."""

import os
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.main import INTERRUPTED
from pitstop.cli.numbers import finite
from pitstop.cli.output import Output, output_options
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.failing import going_on
from pitstop.core.report import Report
from pitstop.profile.start import launch
from pitstop.report import to_html
from pitstop.tune import session
from pitstop.tune.change import Goal
from pitstop.tune.pit_stop import PATCH, TUNED, check, pit_stop
from pitstop.tune.screen import screen
from pitstop.tune.session import BUDGET_MINUTES, Session

PAGE = "report.html"

EXAMPLES = """\b
Examples:
  pitstop tune train.py --lr 1e-4
  pitstop tune --budget 20 --steps 40 -m mypackage.train configs/a.yaml
  pitstop tune --only tf32,bf16,compile --metric 'psnr=(\\S+)' train.py
  pitstop tune --for memory train.py
  pitstop tune --vary '--batch_size 4,8,16' train.py --batch_size 4

\b
Options of ours end at SCRIPT; the rest is the script's. Its files stay as they are: what a
trial writes goes to a scratch folder. What is kept is written to tuned.toml.
Exit code: 0 done, also where nothing helps; 2 could not run; 130 ended by Ctrl-C.
"""


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("--for", "goal", type=click.Choice(["time", "memory"]), default="time")
@click.option("--steps", type=click.IntRange(min=5), help="Steps of a run; else by their time.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    help="Minutes at most; 5 unless you say otherwise.",
)
@click.option("--only", multiple=True, metavar="CHANGES", help="Try these only: tf32,loader.")
@click.option("--skip", multiple=True, metavar="CHANGES", help="Do not try these.")
@click.option("--metric", "metrics", multiple=True, help="A number to guard: 'psnr=(\\S+)'.")
@click.option("--lower-better", multiple=True, metavar="NAME", help="Of --metric: lower is better.")
@click.option("--vary", "varied", default="", help="Sweep an option: '--batch_size 4,8,16'.")
@click.option(
    "--allow-training-changes", "training", is_flag=True, help="Also what changes the training."
)
@click.option("--in-place", is_flag=True, help="Let trials write where the script writes.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
@output_options
def command(
    goal: Goal,
    steps: int | None,
    budget: float | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    metrics: tuple[str, ...],
    lower_better: tuple[str, ...],
    varied: str,
    training: bool,
    in_place: bool,
    module: bool,
    script: tuple[str, ...],
    output: Output,
) -> int:
    """Try changes on SCRIPT, unedited; keep what is faster beyond the noise and does no harm."""
    if not (output.force or varied):  # a sweep keeps nothing
        _refuse_to_replace()
    asked = Session(
        tuple(launch.command_line(script, module, None)),
        (*(["-m"] if module else []), *script),
        goal,
        steps,
        budget or BUDGET_MINUTES,
        _names(only),
        _names(skip),
        metrics,
        lower_better,
        varied,
        training,
        in_place,
    )
    check(asked)
    folder = session.begin(Path.cwd(), asked)
    with screen() as shown:
        result = pit_stop(asked, folder, Path(TUNED), shown)
    _keep_page(folder / PAGE, result.report)
    output.write(result.report)
    if output.path:
        say(result.report.verdict)
    return INTERRUPTED if result.interrupted else 0


def _keep_page(path: Path, report: Report) -> None:
    """The page beside the search: an extra, which must not come between the user and the report."""
    with going_on(say):
        store.write_text(path, to_html.render(report), private=True)


def _refuse_to_replace() -> None:
    for name in (TUNED, PATCH):
        if os.path.lexists(name):
            raise PitstopError(f"{name} is there already: move it away, or give --force")


def _names(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each.strip() for each in ",".join(texts).split(",") if each.strip())
