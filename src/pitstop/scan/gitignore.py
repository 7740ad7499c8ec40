"""Gitignore: which paths git would not look at, by the patterns of nested ignore files."""

import re
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.reading import read_regular

FILE_NAME = ".gitignore"
LARGEST_BYTES = 1_000_000  # nobody lists more by hand
LONGEST_PATTERN = 4096  # characters: the longest path of Linux
PIECE = re.compile(r"\*+|\\.|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file: applies below ``folder``."""

    folder: str  # relative to the top, with slashes; empty for the top itself
    expression: re.Pattern[str]
    negated: bool
    only_folders: bool


def read_patterns(file: Path, folder: str) -> list[Pattern]:
    """The patterns of one ignore file; none when it cannot be read."""
    try:
        text = read_regular(file, LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = text.splitlines()
    return [pattern for line in lines if (pattern := parse_pattern(line, folder))]


def parse_pattern(line: str, folder: str = "") -> Pattern | None:
    """One pattern line as git reads it; ``None`` for blank lines and comments."""
    text = line.rstrip("\n\r")
    text = text.rstrip(" ") if not text.endswith("\\ ") else text
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    only_folders = text.endswith("/")
    text = text.removesuffix("/")
    if len(text) > LONGEST_PATTERN:
        return None
    glob = text.removeprefix("/") if "/" in text else f"**/{text}"
    try:
        expression = re.compile(_translate(glob) + r"\Z", re.DOTALL)
    except re.error:
        return None
    return Pattern(folder, expression, negated, only_folders)


def is_ignored(patterns: list[Pattern], path: str, is_folder: bool) -> bool:
    """Whether the last pattern that matches ``path`` excludes it."""
    for pattern in reversed(patterns):
        if pattern.only_folders and not is_folder:
            continue
        prefix = f"{pattern.folder}/" if pattern.folder else ""
        if path.startswith(prefix) and pattern.expression.match(path[len(prefix) :]):
            return not pattern.negated
    return False


def _translate(glob: str) -> str:
    """A glob as an expression: ``*`` stops at slashes, ``**/`` stands for any folders.

    What a star but the last has matched is never looked for again (``(?>...)``): where the rest
    fits behind a later place, it fits behind the first. So the time does not grow with the stars.
    """
    chunks: list[list[str]] = [[]]  # between one ``**`` and the next
    for name in glob.split("/"):
        if len(name) > 1 and not name.strip("*"):
            chunks.append([])
        else:
            chunks[-1].append(_translate_name(name))
    first, *others = ["/".join(chunk) for chunk in chunks]
    if not others:
        return first
    *middle, last = others
    found = f"{first}/" if first else ""
    found += "".join(f"(?>(?:[^/]+/)*?{chunk}/)" for chunk in middle if chunk)
    return found + (f"(?:[^/]+/)*{last}" if last else ".+")


def _translate_name(glob: str) -> str:
    """One name of a path, without slashes."""
    runs = [""]  # between one star and the next
    for piece in PIECE.findall(glob):
        if piece[0] == "*":
            runs.append("")
        else:
            runs[-1] += _translate_piece(piece)
    first, *others = runs
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{run})" for run in middle) + f"[^/]*{last}"


def _translate_piece(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if len(piece) > 1 and piece[0] == "[":
        negated = piece[1] in "!^"
        inside = re.sub(r"([^\w-])", r"\\\1", piece[1 + negated : -1])
        return f"(?!/)[{'^' * negated}{inside}]"
    return re.escape(piece[-1])  # also of a letter behind a backslash
