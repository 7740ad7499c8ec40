"""Formats: the renderers of the folder ``report``, found by name, by suffix, or by their output."""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pitstop.report
from pitstop.core.errors import PitstopError
from pitstop.core.reading import read_regular
from pitstop.core.store import LARGEST_BYTES

PREFIX = "to_"
HEAD = 4096  # characters of a file in which the mark of its format stands


def formats() -> list[str]:
    """Names of the output formats: one per module ``to_NAME`` of the folder ``report``."""
    names = [info.name for info in pkgutil.iter_modules(pitstop.report.__path__)]
    return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]


def renderer(name: str) -> Any:
    """The module of a format: ``render``, ``SUFFIX``, and the ``MARK`` of what it has written."""
    return importlib.import_module(f"pitstop.report.{PREFIX}{name}")


def by_suffix(output: Path) -> str:
    """The format that the name of a file asks for."""
    for name in formats():
        if output.suffix == renderer(name).SUFFIX:
            return name
    suffixes = ", ".join(renderer(name).SUFFIX for name in formats())
    raise PitstopError(f"{output}: no format has this suffix; use one of {suffixes} or --format")


def is_report(path: Path) -> bool:
    """Whether a file was written by one of our formats, or is empty: nothing is lost with it."""
    head = read_regular(path, LARGEST_BYTES)[:HEAD].decode("utf-8", "replace")
    return not head or any(renderer(name).MARK in head for name in formats())
