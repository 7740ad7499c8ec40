"""Places: a line of the user's source as a finding carries it."""

from dataclasses import replace
from pathlib import PurePath

from pitstop.core.evidence import Line
from pitstop.core.finding import Span


def span(line: Line) -> Span | None:
    """The place of a line; nothing where the line is not known. Columns are not recorded."""
    return Span(line.path, line.line, 1, line.line, 1) if line.path else None


def relative_to(span: Span | None, root: str) -> Span | None:
    """The place with its path from ``root`` on, where it lies below; that is what people type."""
    if span is None or not root or not PurePath(span.path).is_relative_to(root):
        return span
    return replace(span, path=str(PurePath(span.path).relative_to(root)))


def label(line: Line) -> str:
    """The place as a sentence names it: ``data.py:31``."""
    return f"{PurePath(line.path).name}:{line.line}"
