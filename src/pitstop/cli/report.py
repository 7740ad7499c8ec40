"""``pitstop report``: a recording, rendered again."""

from pathlib import Path

import click

from pitstop.cli.output import Output, output_options
from pitstop.profile.read import runs
from pitstop.run_report import report_of

EXAMPLES = """\b
Examples:
  pitstop report last
  pitstop report 20261115-0425 --output step.html
"""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="ID")
@output_options
def command(run: str, output: Output) -> None:
    """Show the recording ID, the beginning of one, its folder, or `last`."""
    folder = runs.find(Path.cwd(), run)
    output.write(report_of(folder, runs.load(folder)))
