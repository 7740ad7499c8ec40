"""Refusals: which of the user's files a trial was not let write to, by what it complained of.

The kernel tells nobody but the program that it refuses, so we read what that says of it. Whoever
asks the system may write there, and could not: then it was the sandbox.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pitstop.tune.runs.endings import Ending

DENIED = os.strerror(errno.EACCES)
REMEDY = "give --in-place if trials may write there"
QUOTED = re.compile("['\"`<\u2018\u201c]([^'\"`<>\u2018-\u201d]+)['\"`>\u2019\u201d]")
BEFORE = re.compile(rf"(\S+): {DENIED}")


def refused(complaints: Sequence[str], may_write: Sequence[Path]) -> tuple[str, ...]:
    """The paths as they were named, each once."""
    roots = tuple(f"{os.path.realpath(each)}{os.sep}" for each in may_write)
    named = (name for line in complaints if DENIED in line for name in _paths(line))
    return tuple(dict.fromkeys(each for each in named if _is_ours(each, roots)))


def explained(ending: Ending, refused: Sequence[str]) -> Ending:
    """An error that may come of a refusal begins with that: the last one is nearest to it."""
    if not (ending.error and refused):
        return ending
    said = f"Pitstop refused a write to {refused[-1]}; {REMEDY} ({ending.error})"
    return replace(ending, error=said, refused=refused[-1])


def _paths(line: str) -> Iterator[str]:
    yield from QUOTED.findall(line) or BEFORE.findall(line)


def _is_ours(name: str, roots: tuple[str, ...]) -> bool:
    """Whether the system would let us write there, were it not for the sandbox."""
    path = Path(name).absolute()
    if not _plausible(path) or f"{os.path.realpath(path)}{os.sep}".startswith(roots):
        return False
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    return os.access(there, os.W_OK)


def _plausible(path: Path) -> bool:
    try:
        return path.parent.exists() or path.parent.parent.exists()
    except (OSError, ValueError):  # a text too long for a name, or with a zero in it
        return False
