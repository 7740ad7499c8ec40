"""Sources: the line of the user's text that puts something under a name."""

import linecache
import re
import sys
from collections.abc import Iterable, Iterator

from pitstop.profile.source.lines import NOWHERE, Place, origin_of

ADDING = r"\.(append|appendleft|extend|add|insert|update|setdefault)\("
GROWS = rf"(\[[^\]]*\])*\s*({ADDING}|\+=|\[.*\]\s*=[^=])"
ACCUMULATES = r"\s*=[^=].*\b{name}\b"  # total = total + loss
ASSIGNS = r"\s*(:[^=]+)?=[^=]"


def keeping_line(name: str, path: str, near: Place, lines: range | None = None) -> Place:
    """The line that puts a tensor into what is called ``name``; the nearest after ``near``."""
    last = re.escape(name.rpartition(".")[2])
    start = rf"(?<![\w.]){last}" if "." not in name else rf"\.{last}"
    for pattern in (start + r"\b" + GROWS, start + ACCUMULATES.format(name=last)):
        found = _matching(re.compile(pattern), path, lines)
        if found:
            after = [each for each in found if each >= near[1]] if near[0] == path else []
            return path, (after or found)[0], near[2] if near[0] == path else ""
    return NOWHERE


def assigning_line(name: str, paths: Iterable[str]) -> Place:
    """The first line of these files that sets a variable, or an attribute ``self.name``."""
    start = r"(?<![\w.])" if "." not in name else r"\b"
    pattern = re.compile(start + re.escape(name) + ASSIGNS)
    for path in paths:
        for line in _matching(pattern, path, None):
            return path, line, ""
    return NOWHERE


def files_of(kind: type) -> Iterator[str]:
    """The user's files that define a class and those it inherits from."""
    for each in kind.__mro__:
        path = getattr(sys.modules.get(each.__module__), "__file__", None) or ""
        if path and origin_of(path) == "user":
            yield path


def _matching(pattern: re.Pattern[str], path: str, lines: range | None) -> list[int]:
    text = linecache.getlines(path)
    wanted = lines or range(1, len(text) + 1)
    return [number for number in wanted if pattern.search(text[number - 1].partition("#")[0])]
