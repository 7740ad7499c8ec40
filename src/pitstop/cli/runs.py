"""``pitstop runs``: the recordings of this folder."""

from pathlib import Path

import click

from pitstop.cli.failure import say_error
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.profile.read import runs

EXAMPLES = """\b
Examples:
  pitstop runs                 newest last, with how each ended
  pitstop report last          show the newest again
"""


@click.command(epilog=EXAMPLES)
def command() -> None:
    """List the recordings made in this folder."""
    for folder in runs.all_runs(Path.cwd()):
        try:
            run = runs.load(folder)
        except PitstopError as error:
            say_error(error)
            continue
        code = "unfinished" if run.exit_code is None else f"exit {run.exit_code}"
        line = f"{folder.name:<40}  {run.started}  {code:<10}  {' '.join(run.command[1:])}"
        click.echo(printable(line))
