"""Excerpts: the source that a run was seen in, as it was then, kept with the recording.

A recording may come from a stranger, and name files of this machine that are none of his business:
no file is ever read because a recording names it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from pitstop.core.evidence import NUMBERS_ONLY, Evidence, Line
from pitstop.core.finding import Span
from pitstop.core.reading import read_regular
from pitstop.core.secrets import masked_source

AROUND = 1  # lines above and below, as many as a page has room for
LARGEST_BYTES = 4_000_000  # of a source file; what is larger was written by a program
LONGEST = 300  # characters of a line; the rest of it says no more


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of source, without the secrets that are written out in it."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Excerpts:
    """All the lines that findings about a recording may show."""

    lines: tuple[SourceLine, ...] = ()

    def at(self, span: Span | None) -> tuple[str, ...]:
        """The source around a place, numbered and marked; nothing where it was not kept."""
        if span is None:
            return ()
        texts = {each.line: each.text for each in self.lines if each.path == span.path}
        if span.line not in texts:
            return ()
        near = range(max(1, span.line - AROUND), span.line + AROUND + 1)
        width = len(str(near[-1]))
        marks = (">" if number == span.line else " " for number in near)
        return tuple(
            f"{mark} {number:>{width}} | {texts.get(number, '')}".rstrip()
            for mark, number in zip(marks, near, strict=True)
        )


def read_excerpts(ranks: Iterable[Evidence]) -> Excerpts:
    """The source around every line of a recording that was made just now, on this machine."""
    wanted: dict[str, set[int]] = {}
    for place in {each for rank in ranks for each in _lines_in(rank) if each.path}:
        near = range(place.line - AROUND, place.line + AROUND + 1)
        wanted.setdefault(place.path, set()).update(near)
    return Excerpts(tuple(each for path in sorted(wanted) for each in _read(path, wanted[path])))


def _read(path: str, wanted: set[int]) -> Iterator[SourceLine]:
    try:
        data = read_regular(Path(path), LARGEST_BYTES)
    except (OSError, ValueError):  # a name with a zero byte is a ValueError
        return
    for number, text in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if number in wanted:
            shown = text.expandtabs(4).rstrip()[:LONGEST]
            yield SourceLine(path, number, masked_source(shown))


def _lines_in(value: Any) -> Iterator[Line]:
    if isinstance(value, Line):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _lines_in(each)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in NUMBERS_ONLY:
                yield from _lines_in(getattr(value, field.name))
