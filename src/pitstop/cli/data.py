"""``pitstop data``: whether a dataset will feed the model."""

from dataclasses import replace
from pathlib import Path

import click

from pitstop.cli.numbers import finite
from pitstop.cli.output import Output, output_options
from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.progress import Progress
from pitstop.data import needs
from pitstop.data.dataset import Dataset
from pitstop.data.examine import examine
from pitstop.data.read import Plan, read_dataset
from pitstop.doctor.read import read_hardware
from pitstop.doctor.rules.shared_memory_too_small import shared_memory_too_small

FINDINGS = 1

EXAMPLES = """\b
Examples:
  pitstop data data/gopro_spike                      layout, what is broken, size in memory
  pitstop data data/reds --window 15                 clips must have 15 frames
  pitstop data data/reds --step-ms 120 --batch 8     workers for a step of 120 ms
  pitstop data data/div2k --crop 256                 whether whole pictures are decoded for crops
  pitstop data data/imagenet --sample 0              open every file, not only some
  pitstop data data/gopro_spike --output data.html   a page to keep

\b
Exit code: 0 nothing to do, 1 something to mend, 2 could not run.
"""


@click.command(epilog=EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--window", "--frames", type=click.IntRange(1, 100_000), help="Frames that one sample takes."
)
@click.option(
    "--step-ms",
    type=click.FloatRange(0.001, 1e9),
    callback=finite,
    help="Time of one training step.",
)
@click.option("--batch", type=click.IntRange(1, 1_000_000), default=1, help="Samples in a batch.")
@click.option("--crop", type=click.IntRange(1, 100_000), help="Side of the crops that are used.")
@click.option(
    "--sample",
    type=click.IntRange(0),
    default=5000,
    show_default=True,
    help="Files that are opened, spread evenly; 0 opens all.",
)
@output_options
def command(
    path: Path,
    window: int | None,
    step_ms: float | None,
    batch: int,
    crop: int | None,
    sample: int,
    output: Output,
) -> int:
    """Will this dataset feed the model? Runs nothing of yours, and unpickles nothing."""
    machine = read_hardware()
    plan = Plan(window, batch, step_ms, crop, sample, machine.cores, machine.memory_bytes)
    with Progress(1, wanted=True, doing="opening files") as progress:
        dataset = read_dataset(path, plan, progress.advance, progress.expect)
    report = examine(dataset, _shared_memory(dataset, machine))
    output.write(report)
    return FINDINGS if report.findings else 0


def _shared_memory(dataset: Dataset, machine: Machine) -> list[Finding]:
    """Whether the batches of as many workers as are needed fit into /dev/shm."""
    workers = needs.workers_needed(dataset)
    if workers is None:
        return []
    workers = min(workers, machine.cores)
    asked = replace(machine, workers=workers, batch_bytes=needs.batch_bytes(dataset))
    return shared_memory_too_small(asked)
