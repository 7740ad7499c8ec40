"""Failure: how whatever goes wrong is said, in one line, with the traceback kept in a file."""

import contextlib
import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

import click

from pitstop.cli import agent
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable, printable_lines
from pitstop.core.secrets import masked_text

CURES = {  # of what is wrong with the machine or with what was typed, not with us
    errno.ENOSPC: "make some room, then try again",
    errno.EDQUOT: "make some room, then try again",
    errno.EROFS: "run it where it can write",
    errno.EACCES: "get the right to it, or choose another place",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "these links lead nowhere; give another name",
    errno.EMFILE: "allow more open files (ulimit -n)",
}
ISSUES = "please report it with that file"


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
        case PitstopError():
            return "could-not-run", str(error)
        case click.UsageError(ctx=click.Context() as context):
            said = printable(error.format_message())
            return "usage", f"{said} (see {context.command_path} --help)"
        case click.ClickException():
            return "usage", printable(error.format_message())
        case OSError() if error.errno in CURES:
            where = f"{error.filename}: " if error.filename else ""
            return "machine", f"{printable(where)}{error.strerror}: {CURES[error.errno]}"
        case _:
            what = f"{type(error).__name__}: {error}".removesuffix(": ")
            return "unexpected", f"unexpected {printable(masked_text(what))}; {_kept(error)}"


@contextlib.contextmanager
def going_on() -> Iterator[None]:
    """Whatever fails in here is said, and what comes after it is done nevertheless."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 the script has run, and its report is worth more
        say_error(error)


def _kept(error: BaseException) -> str:
    """Where the traceback is; on a machine without any room, the place that raised it."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="pitstop-", suffix=".traceback")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(masked_text(text))
    except OSError:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"raised at {last.filename}:{last.lineno}, and no file could be written: report it"
    return f"its traceback is in {path}: {ISSUES}"


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
