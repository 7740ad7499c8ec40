"""Notebooks: the code cells of a Jupyter notebook as one Python text, and where its lines are."""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pitstop.core.finding import Finding, Span
from pitstop.scan.decode import UnreadableError
from pitstop.scan.text import LINE_END

SUFFIX = ".ipynb"
# Lines that IPython runs and Python does not: `%matplotlib inline`, `!pip install`, `model?`.
MAGIC = re.compile(
    r"^(?P<indent>[ \t]*)(?:[%!?]|\w+[ \t]*=[ \t]*[%!]|[\w.]+\?\??[ \t]*$).*$", re.MULTILINE
)
CELL_MAGIC = re.compile(r"^\s*%%(?P<name>\w+)")
OVER_PYTHON = {"time", "timeit", "capture", "prun", "memit", "px", "with_profiler"}


class Cell(msgspec.Struct):
    """One cell as the file has it."""

    cell_type: str
    source: str | list[str] = ""


class Document(msgspec.Struct):
    """What is read of a notebook's file."""

    cells: list[Cell]
    metadata: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Notebook:
    """The Python of a notebook, and the first line of each of its cells in that text."""

    text: str
    first_lines: Sequence[int] = ()
    cells: Sequence[int] = ()  # their numbers, from 1, among all cells

    def place(self, line: int) -> tuple[int, int]:
        """Cell and line in it, both from 1, of a line of the text."""
        index = max(bisect_right(self.first_lines, line) - 1, 0)
        return self.cells[index], line - self.first_lines[index] + 1


def read_notebook(text: str) -> Notebook:
    """The code cells that are Python; raises ``UnreadableError`` when there can be none."""
    try:
        document = msgspec.json.decode(text, type=Document)
    except (msgspec.MsgspecError, RecursionError):
        raise UnreadableError("no notebook of Jupyter 4 or later") from None
    if not _is_python(document.metadata):
        return Notebook("")
    parts, first_lines, numbers, line = [], [], [], 1
    for number, cell in enumerate(document.cells, 1):
        source = cell.source if isinstance(cell.source, str) else "".join(cell.source)
        code = _python(source) if cell.cell_type == "code" else ""
        if code:
            parts.append(code)
            first_lines.append(line)
            numbers.append(number)
            line += len(LINE_END.findall(code)) + 1
    return Notebook("\n".join(parts), tuple(first_lines), tuple(numbers))


def _is_python(metadata: Mapping[str, Any]) -> bool:
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        said = metadata.get(key)
        if isinstance(said, dict) and isinstance(said.get(field), str):
            return "python" in said[field].lower()
    return True


def _python(source: str) -> str:
    """A cell without what only IPython understands, line by line; empty where nothing is left."""
    magic = CELL_MAGIC.match(source)
    if magic and magic["name"] not in OVER_PYTHON:
        return ""
    plain = MAGIC.sub(r"\g<indent>pass", source)
    return next((each for each in (source, plain) if each.strip() and _parses(each)), "")


def _parses(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def in_cells(finding: Finding, notebooks: Mapping[str, Notebook]) -> Finding:
    """The same finding with cells for lines, in its message too; a notebook is never written."""
    span, fix = finding.span, finding.fix
    if span and span.path in notebooks:
        span, fix = _in_its_cell(span, notebooks[span.path]), None
    elif fix and any(edit.path in notebooks for edit in fix.edits):
        fix = None
    message = finding.message
    for name, notebook in notebooks.items():
        if name in message:
            message = _renumbered(message, name, notebook)
    return replace(finding, span=span, fix=fix, message=message)


def _in_its_cell(span: Span, notebook: Notebook) -> Span:
    cell, line = notebook.place(span.line)
    end_line = line + span.end_line - span.line
    return Span(span.path, line, span.column, end_line, span.end_column, cell)


def _renumbered(message: str, name: str, notebook: Notebook) -> str:
    """``play.ipynb:88`` as ``play.ipynb:cell 4:3``."""

    def place(match: re.Match[str]) -> str:
        cell, line = notebook.place(int(match[1]))
        return f"{name}:cell {cell}:{line}"

    return re.sub(rf"{re.escape(name)}:(\d+)", place, message)
