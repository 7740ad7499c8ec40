"""The entry point: finds the command, runs it, and turns every outcome into an exit code."""

import importlib
import os
import pkgutil
import sys
from pathlib import Path
from typing import NoReturn

import click

import pitstop.cli
from pitstop import __version__
from pitstop.cli import agent
from pitstop.cli.failure import (
    give_up_what_cannot_be_written,
    say,
    say_error,
    use_streams_that_can_be_written,
)
from pitstop.core.errors import PitstopError

COULD_NOT_RUN = 2
SERVING = {  # no commands
    *("agent", "failure", "formats", "main", "numbers", "output", "watching"),
}
INTERRUPTED = 130  # what shells expect after Ctrl-C
NOBODY_READS = 141  # likewise of a program whose reader, `head` perhaps, has seen enough
COMPLETION = "_PITSTOP_COMPLETE"  # set by the shell that asks what could be typed next


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
    cls=CommandFolder,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="pitstop")
@click.pass_context
def command(context: click.Context) -> int:
    """Find what makes a PyTorch image or video project slow, fix it, and prove it."""
    if context.invoked_subcommand is None:
        say(context.get_help())
    return COULD_NOT_RUN  # of a command that was named, its own code counts


def main() -> NoReturn:
    """Run the command line and exit."""
    use_streams_that_can_be_written()
    code = run(sys.argv[1:])
    give_up_what_cannot_be_written()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code; whatever goes wrong is one line on stderr."""
    try:
        return _invoke(arguments)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("")  # ends the line in which the terminal shows ^C
        return INTERRUPTED
    except BrokenPipeError:
        return NOBODY_READS
    except Exception as error:  # noqa: BLE001 a traceback would end with 1, which means findings
        say_error(error, agent.reads(arguments))
        return COULD_NOT_RUN


def _invoke(arguments: list[str]) -> int:
    """What ``command.main`` does, but without its own ideas of exit codes."""
    if COMPLETION in os.environ:
        command.main(arguments, prog_name="pitstop")
    try:
        Path.cwd()
    except OSError:
        raise PitstopError("the current folder is gone: change to one that exists") from None
    with command.make_context("pitstop", list(arguments)) as context:
        return int(command.invoke(context) or 0)
