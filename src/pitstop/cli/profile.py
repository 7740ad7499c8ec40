"""``pitstop profile``: run an unedited script, record where its steps go, and say why."""

from dataclasses import replace
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.output import Output, output_options
from pitstop.cli.watching import Watch
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.failing import going_on
from pitstop.core.printable import printable
from pitstop.diagnose.told.report import by_signal
from pitstop.profile.hooks.shown import hooks_shown
from pitstop.profile.read import runs
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options
from pitstop.profile.start.program import is_launcher
from pitstop.run_report import keep_surroundings, report_of

FAILED = "the script ended with an error of its own before a step could be timed"

EXAMPLES = """\b
Examples:
  pitstop profile --quick train.py --lr 1e-4         end it when enough was seen
  pitstop profile train.py --lr 1e-4                 the whole run, as it is
  pitstop profile --steps 60 train.py --lr 1e-4      end it after 60 steps
  pitstop profile -m mypackage.train configs/a.yaml
  pitstop profile --nproc-per-node 2 train.py
  pitstop profile -- torchrun --nproc-per-node 2 train.py
  pitstop profile --from last --output step.html     the last recording, as a page

\b
Options of ours end at SCRIPT; the rest is the script's. Its output and exit code stay its own;
our report goes to stderr, and to --output FILE.
"""


@click.command(epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="End the run cleanly after so many steps of the training.",
)
@click.option("--quick", is_flag=True, help="End the run cleanly as soon as enough was seen.")
@click.option("--warmup", type=click.IntRange(min=0), default=3, show_default=True)
@click.option("--inspect", type=click.IntRange(min=0), default=2, show_default=True)
@click.option("--nproc-per-node", type=click.IntRange(min=1), help="Start it through torchrun.")
@click.option("--trace", is_flag=True, help="Keep a gzipped Chrome trace, which Perfetto opens.")
@click.option("--redact", is_flag=True, help="Leave paths and arguments out of the recording.")
@click.option(
    "--from", "recorded", metavar="ID", help="Think again about a recording; run nothing."
)
@click.option("--show-hooks", is_flag=True, help="List what is put around torch, and stop.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
@output_options
def command(
    steps: int | None,
    quick: bool,
    warmup: int,
    inspect: int,
    nproc_per_node: int | None,
    trace: bool,
    redact: bool,
    recorded: str | None,
    show_hooks: bool,
    module: bool,
    script: tuple[str, ...],
    output: Output,
) -> int:
    """Run SCRIPT with its ARGS, unedited, and record where each step goes."""
    if show_hooks:
        click.echo(hooks_shown(), nl=False)
        return 0
    if recorded:
        earlier = runs.find(Path.cwd(), recorded)
        output.write(report_of(earlier, runs.load(earlier)), err=True)
        return 0
    words = launch.command_line(script, module, nproc_per_node)
    folder = launch.new_run_folder(Path.cwd(), "run" if redact else script[0])
    run = runs.begun(() if redact else words, warmup)
    store.save(folder / "run.json", run)
    options = Options(
        folder=str(folder),
        steps=steps,
        quick=quick,
        headspace=quick,
        warmup=warmup,
        inspect=inspect,
        trace=trace,
        redact=redact,
    )
    if quick and (nproc_per_node or is_launcher(script[0])):
        raise PitstopError(
            "--quick ends each rank by itself, and the others would wait: --steps 60"
        )
    with Watch(folder, run, output, options) as watch:
        code = launch.run(words, options, meanwhile=watch.look)
    _report(folder, replace(run, exit_code=code), output)
    return launch.end_like(code)


def _report(folder: Path, run: runs.Run, output: Output) -> None:
    """Show what was recorded; the script has ended, and no trouble of ours may change its code."""
    with going_on(say):
        store.save(folder / "run.json", run)
    with going_on(say):
        keep_surroundings(folder, run)
    with going_on(say):
        report = report_of(folder, run)
        if run.exit_code and not by_signal(run.exit_code) and not report.ledger:
            say(f"pitstop: {FAILED} (exit code {run.exit_code})")
            return
        output.write(report, err=True, brief=True)
        say(f"recorded in {printable(str(folder))}")
