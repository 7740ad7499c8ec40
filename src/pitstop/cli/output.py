"""Output: the options --format, --output and --force, and writing a report where they ask for it.

Where it is to go is checked before anything runs. Whatever fails at the end, the report is shown.
"""

import functools
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from pitstop.cli import agent
from pitstop.cli.failure import say
from pitstop.cli.formats import by_suffix, formats, is_report, renderer
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.core.report import Report
from pitstop.report import to_terminal

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Output:
    """Where a report goes and in which format; without a file, to the terminal."""

    format: str | None = None
    path: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.path:
            by_suffix(self.path) if self.format is None else None
            check_target(self.path, self.force, is_report)

    def write(self, report: Report, err: bool = False, brief: bool = False) -> None:
        """Write or show the report; ``err`` means stderr. What cannot be written is shown.

        Where it is ``brief``, one screen of it is shown, beside a file as well.
        """
        if self.path is None or brief:
            shown = "terminal" if self.path else self.format or "terminal"
            show(report, shown, err and shown != agent.FORMAT, brief)
        if self.path is None:
            return
        try:
            self.save(report)
        except Exception:
            show(report, "terminal", err)
            raise
        say(f"report written to {printable(str(self.path))}")

    def save(self, report: Report) -> None:
        """Write the report to its file, where one was asked for, and say nothing."""
        if self.path:
            text = renderer(self.format or by_suffix(self.path)).render(report)
            store.write_text(self.path, text)


def output_options(function: Function) -> Function:
    """Give a command ``--format``, ``--output`` and ``--force``; it gets them as one ``output``."""

    @click.option(
        "--format",
        type=click.Choice(formats()),
        help="Output format. [default: terminal; agent where a coding agent runs this]",
    )
    @click.option(
        "--output",
        type=click.Path(path_type=Path),
        help="Write the report to FILE; the suffix chooses the format unless --format is given.",
        metavar="FILE",
    )
    @click.option("--force", is_flag=True, help="Replace files that are there already.")
    @functools.wraps(function)
    def with_output(
        *given: Any, format: str | None, output: Path | None, force: bool, **rest: Any
    ) -> Any:
        by_itself = agent.FORMAT if output is None and agent.is_there() else None
        return function(*given, output=Output(format or by_itself, output, force), **rest)

    return cast("Function", with_output)


def check_target(path: Path, force: bool, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a file that could not be written at the end, or that is somebody else's."""
    try:
        known = path.stat() if path.exists() else None
        if known and not stat.S_ISREG(known.st_mode):
            raise PitstopError(f"{path}: not a file that can be replaced; give another name")
        if known and not (force or is_ours(path)):
            raise PitstopError(f"{path}: there already, and not ours: give --force to replace it")
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass  # asking for permission would not tell of a read-only or a full disk
    except OSError as error:
        reason = error.strerror or error
        raise PitstopError(f"{path} cannot be written: {reason}; give another name") from None


def show(report: Report, name: str = "terminal", err: bool = False, brief: bool = False) -> None:
    """Print a report in this format, in colour where that is a terminal."""
    click.echo(_on_screen(report, name, err, brief), nl=False, err=err)


def _on_screen(report: Report, name: str, err: bool, brief: bool) -> str:
    if name != "terminal":
        return cast("str", renderer(name).render(report))
    terminal = (sys.stderr if err else sys.stdout).isatty()
    color = terminal and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if terminal else None
    return to_terminal.render(report, color, width, brief)
