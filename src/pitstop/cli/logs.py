"""``pitstop logs``: what went wrong in past runs."""

from pathlib import Path

import click

from pitstop.cli.output import Output, output_options
from pitstop.core.progress import Progress
from pitstop.logs.examine import examine
from pitstop.logs.read import read_logs

FINDINGS = 1

EXAMPLES = """\b
Examples:
  pitstop logs runs/                          every run below, side by side
  pitstop logs lightning_logs/version_3       one run
  pitstop logs wandb/offline-run-20250101     W&B runs that were never synced
  pitstop logs out/checkpoint-500             what transformers' Trainer keeps
  pitstop logs metrics.csv                    one file
  pitstop logs runs/ --output logs.html       a page with a picture of each finding

\b
Exit code: 0 nothing went wrong, 1 something did, 2 could not run.
"""


@click.command(epilog=EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@output_options
def command(path: Path, output: Output) -> int:
    """What went wrong in a past run? TensorBoard, CSV, JSON lines, W&B, Lightning, Trainer."""
    with Progress(1, wanted=True, doing="reading logs") as progress:
        logs = read_logs(path, progress.advance, progress.expect)
    report = examine(logs)
    output.write(report)
    return FINDINGS if report.findings else 0
