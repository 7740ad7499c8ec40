"""The entry point: finds the command, runs it, and turns every outcome into an exit code."""

import importlib
import os
import pkgutil
import sys
from typing import NoReturn

import click

import pitstop.cli
from pitstop import __version__
from pitstop.core.errors import PitstopError

COULD_NOT_RUN = 2
SERVING = {"diagnosis", "main", "output"}  # modules of this folder that are no command
INTERRUPTED = 130  # what shells expect after Ctrl-C


class CommandFolder(click.Group):
    """A group whose commands are the modules of ``pitstop.cli`` that define ``command``.

    Only the module of the command that was typed is imported; ``--help`` imports them all.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        """Every module of the folder but those that only serve the others."""
        names = [info.name for info in pkgutil.iter_modules(pitstop.cli.__path__)]
        return sorted(name for name in names if name not in SERVING)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command object of one module, or ``None`` when there is no such module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found = importlib.import_module(f"pitstop.cli.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found


EXAMPLES = """\b
Examples:
  pitstop doctor              is this machine set up well?
  pitstop scan .              what does the source say?
  pitstop profile train.py    where does each step go, and why?
  pitstop tune train.py       which changes help, proved on this script?
  pitstop COMMAND --help      options and examples of one command
"""


@click.command(
    cls=CommandFolder, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="pitstop")
def command() -> None:
    """Find what makes a PyTorch image or video project slow, fix it, and prove it."""


def main() -> NoReturn:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code; a user's mistake is one line on stderr."""
    try:
        return int(command.main(arguments, prog_name="pitstop", standalone_mode=False) or 0)
    except PitstopError as error:
        click.echo(f"pitstop: {error}", err=True)
    except click.UsageError as error:
        click.echo(f"pitstop: {error.format_message()}{_usage_hint(error)}", err=True)
    except click.ClickException as error:
        click.echo(f"pitstop: {error.format_message()}", err=True)
    except click.Abort:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return COULD_NOT_RUN


def _usage_hint(error: click.UsageError) -> str:
    return f" (see {error.ctx.command_path} --help)" if error.ctx else ""
