"""Caches: how much the caches of a dataset hold when another epoch begins.

A dataset that keeps what it has read keeps it in this process or, with workers, in theirs, which
end with the epoch unless they persist. What counts is the copy that the next epoch starts from.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.source.lines import Place

NAMED = re.compile(r"cache|memo(?:ry|ise|ize|$)", re.IGNORECASE)  # what people call them
HOLDERS = (dict, list, set)
DEEP = 4  # datasets inside one another: a subset of a concatenation of a wrapper


def caches(dataset: Any) -> list[list[Any]]:
    """Name, number of entries and place of each cache of a dataset and of those inside it."""
    found: list[list[Any]] = attempt(lambda: [*_caches(dataset, DEEP)], otherwise=[])
    return found


def _caches(dataset: Any, deep: int) -> Iterator[list[Any]]:
    for name, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, HOLDERS) and NAMED.search(name):
            yield [name, len(value), *_place(type(dataset), name)]
    inner = getattr(dataset, "dataset", None)
    if inner is not None and deep:
        yield from _caches(inner, deep - 1)


def _place(kind: type, name: str) -> Place:
    """The first line of the class that names the attribute; else the class itself."""
    lines, first = inspect.getsourcelines(kind)
    used = (place for place, text in enumerate(lines) if f"self.{name}" in text)
    return (inspect.getsourcefile(kind) or "", first + next(used, 0), kind.__name__)
