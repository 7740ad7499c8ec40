"""Places: a line of the user's source as a finding carries it."""

from pitstop.core.evidence import Line
from pitstop.core.finding import Span


def span(line: Line) -> Span | None:
    """The place of a line; nothing where the line is not known. Columns are not recorded."""
    return Span(line.path, line.line, 1, line.line, 1) if line.path else None
