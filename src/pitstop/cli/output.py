"""Output: the options --format and --output, and writing a report in the format they ask for."""

import importlib
import os
import pkgutil
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

import pitstop.report
from pitstop.cli.failure import say
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.core.report import Report
from pitstop.report import to_terminal

Function = TypeVar("Function", bound=Callable[..., Any])

PREFIX = "to_"


def formats() -> list[str]:
    """Names of the output formats: one per module ``to_NAME`` of the folder ``report``."""
    names = [info.name for info in pkgutil.iter_modules(pitstop.report.__path__)]
    return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]


def output_options(function: Function) -> Function:
    """Give a command the options ``--format`` and ``--output``, passed on under these names."""
    output = click.option(
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the report to FILE; the suffix chooses the format unless --format is given.",
        metavar="FILE",
    )
    choice = click.option(
        "--format", type=click.Choice(formats()), help="Output format. [default: terminal]"
    )
    return choice(output(function))


def write(report: Report, format: str | None, output: Path | None, err: bool = False) -> None:
    """Render a report to the file, or to stdout where none is given; ``err`` means stderr."""
    if output is None:
        click.echo(_on_screen(report, format or "terminal", err), nl=False, err=err)
        return
    store.write_text(output, _renderer(format or _by_suffix(output)).render(report))
    say(f"report written to {printable(str(output))}")


def _on_screen(report: Report, name: str, err: bool) -> str:
    if name != "terminal":
        return cast("str", _renderer(name).render(report))
    terminal = (sys.stderr if err else sys.stdout).isatty()
    color = terminal and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if terminal else None
    return to_terminal.render(report, color, width)


def _renderer(name: str) -> Any:
    return importlib.import_module(f"pitstop.report.{PREFIX}{name}")


def _by_suffix(output: Path) -> str:
    for name in formats():
        if output.suffix == _renderer(name).SUFFIX:
            return name
    suffixes = ", ".join(_renderer(name).SUFFIX for name in formats())
    raise PitstopError(f"{output}: no format has this suffix; use one of {suffixes} or --format")
