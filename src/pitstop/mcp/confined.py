"""Confined: what a client names must lie in the folder in which the server was started."""

import re
from pathlib import Path

from pitstop.core.errors import PitstopError

NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # of a recording or a rule: no path, no option
REVISION = re.compile(r"[\w@][\w@{}~^./-]*")  # likewise, of git


def inside(root: Path, text: str) -> str:
    """A path below the folder, relative to it; links that lead out are outside."""
    top = root.resolve()
    full = (top / text).resolve()
    if not full.is_relative_to(top):
        raise PitstopError(f"{text}: outside of {top}; name a path inside it")
    if not full.exists():
        raise PitstopError(f"{text}: no such path in {top}")
    return f".{'/' if full != top else ''}{full.relative_to(top) if full != top else ''}"


def script(root: Path, text: str) -> str:
    """A script of Python below the folder: nothing else is ever run."""
    path = inside(root, text)
    if not path.endswith(".py") or not (root / path).is_file():
        raise PitstopError(f"{text}: not a script of Python; name a file that ends in .py")
    return path


def name(text: str, what: str, pattern: re.Pattern[str] = NAME) -> str:
    """A name that is neither a path nor an option."""
    if not pattern.fullmatch(text) or ".." in text:
        raise PitstopError(f"{text}: no name of a {what}")
    return text
