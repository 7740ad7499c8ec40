"""Failure: how an error is said to a user or an agent, and streams that take it."""

import contextlib
import os
import sys
from pathlib import Path

import click

from pitstop.cli import agent
from pitstop.core.failing import describe
from pitstop.core.printable import printable, printable_lines


def say(text: str) -> None:
    """Tell on stderr; where that is closed or full, nobody is told, and nothing else changes."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(printable_lines(text), err=True)


def say_error(error: BaseException, to_agent: bool = False) -> None:
    """Say in one line what went wrong; what nobody foresaw leaves its traceback in a file.

    A coding agent is told the same in three.
    """
    code, text = _told(error)
    say(agent.error(code, text) if to_agent else f"pitstop: {text}")


def _told(error: BaseException) -> tuple[str, str]:
    """Which kind of error it is, and what is said of it."""
    match error:
        case click.UsageError(ctx=click.Context() as context):
            said = printable(error.format_message())
            return "usage", f"{said} (see {context.command_path} --help)"
        case click.ClickException():
            return "usage", printable(error.format_message())
        case _:
            return describe(error)


def use_streams_that_can_be_written() -> None:
    """Let no character stop the output, and let what is closed lead nowhere.

    Otherwise the first file that is opened would take the number of a closed stream, and get what
    is printed there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)


def give_up_what_cannot_be_written() -> None:
    """What a full disk or a closed pipe did not take: Python would complain of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
