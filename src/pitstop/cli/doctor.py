"""``pitstop doctor``: whether this machine is set up well."""

from dataclasses import replace
from pathlib import Path

import click

from pitstop.cli.failure import say
from pitstop.cli.numbers import finite
from pitstop.cli.output import Output, check_target, output_options
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.machine import Machine
from pitstop.core.printable import printable
from pitstop.core.progress import working
from pitstop.doctor.examine import examine, healthy
from pitstop.doctor.limits import with_limits
from pitstop.doctor.read import read_machine

MEGABYTE = 2**20
FINDINGS = 1

EXAMPLES = """\b
Examples:
  pitstop doctor                                this machine, and what it can do
  pitstop doctor --workers 8 --batch-mb 120     for a DataLoader with 8 workers
  pitstop doctor --no-limits                    without the few seconds of measuring
  pitstop doctor --save box.json                record this machine, to send to a colleague
  pitstop doctor --machine box.json             judge a colleague's machine
  pitstop doctor --output doctor.md             a report to paste into an issue

\b
Exit code: 0 nothing to do, 1 something to mend, 2 could not run.
"""

file_path = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=EXAMPLES)
@click.option("--workers", type=click.IntRange(0, 4096), help="DataLoader workers you mean to use.")
@click.option(
    "--batch-mb",
    type=click.FloatRange(0, 1e6),
    callback=finite,
    help="Size of one batch, in MiB.",
)
@click.option("--remeasure", is_flag=True, help="Measure the limits anew, not from the cache.")
@click.option("--no-limits", is_flag=True, help="Do not measure what the machine can do.")
@click.option("--machine", "recording", type=file_path, help="Judge a recorded machine instead.")
@click.option("--save", type=file_path, help="Record this machine in a file.")
@output_options
def command(
    workers: int | None,
    batch_mb: float | None,
    remeasure: bool,
    no_limits: bool,
    recording: Path | None,
    save: Path | None,
    output: Output,
) -> int:
    """Is this machine set up well? One line per item, with what to type where it is not."""
    batch_bytes = None if batch_mb is None else int(batch_mb * MEGABYTE)
    skipped: tuple[str, ...] = ()
    if save:
        check_target(save, output.force, _is_machine)
    if recording:
        machine = _asked(store.load(recording, Machine), workers, batch_bytes)
    else:
        with working("reading this machine"):
            machine = read_machine(workers, batch_bytes)
        if not no_limits:
            machine, skipped = with_limits(machine, remeasure)
    if save:
        store.save(save, machine)
        say(f"machine recorded in {printable(str(save))}")
    report = examine(machine, skipped)
    output.write(report)
    return 0 if healthy(report) else FINDINGS


def _asked(machine: Machine, workers: int | None, batch_bytes: int | None) -> Machine:
    """A recorded machine, for the workers and the batch that the user names now."""
    return replace(
        machine,
        workers=machine.workers if workers is None else workers,
        batch_bytes=machine.batch_bytes if batch_bytes is None else batch_bytes,
    )


def _is_machine(path: Path) -> bool:
    """Whether a file is a recorded machine, which a newer one may replace."""
    try:
        store.load(path, Machine)
    except PitstopError:
        return False
    return True
