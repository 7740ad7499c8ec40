"""``pitstop report``: a recording, rendered again."""

from pathlib import Path

import click

from pitstop.cli.output import output_options, write
from pitstop.profile import runs
from pitstop.profile.collect import collect
from pitstop.profile.summary import summarise

EXAMPLES = """\b
Examples:
  pitstop report last
  pitstop report 20261115-0425 --output step.md
"""


@click.command(epilog=EXAMPLES)
@click.argument("run", metavar="ID")
@output_options
def command(run: str, format: str | None, output: Path | None) -> None:
    """Show the recording ID, the beginning of one, its folder, or `last`."""
    folder = runs.find(Path.cwd(), run)
    found = runs.load(folder)
    report = summarise(collect(folder, found.warmup), found.name, found.exit_code)
    write(report, format, output)
