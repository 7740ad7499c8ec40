"""Gitignore: which paths git would not look at, by the patterns of nested ignore files."""

import re
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = ".gitignore"


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
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
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
    text = text.rstrip("/").removeprefix("\\")
    anchored = "/" in text
    try:
        body = _translate(text.lstrip("/"))
        expression = re.compile(("" if anchored else "(?:.*/)?") + body + r"\Z", re.DOTALL)
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
    """A glob as an expression: ``*`` stops at slashes, ``**`` does not."""
    pieces = []
    position = 0
    while position < len(glob):
        rest = glob[position:]
        if rest.startswith("**/"):
            pieces.append("(?:.*/)?")
            position += 3
        elif rest.startswith("**"):
            pieces.append(".*")
            position += 2
        elif rest.startswith("["):
            piece, length = _character_class(rest)
            pieces.append(piece)
            position += length
        elif rest.startswith("\\") and len(rest) > 1:
            pieces.append(re.escape(rest[1]))
            position += 2
        else:
            pieces.append({"*": "[^/]*", "?": "[^/]"}.get(rest[0], re.escape(rest[0])))
            position += 1
    return "".join(pieces)


def _character_class(rest: str) -> tuple[str, int]:
    end = rest.find("]", 2)
    if end < 0:
        return re.escape("["), 1
    inside = rest[1:end].replace("\\", "\\\\")
    inside = f"^{inside[1:]}" if inside.startswith(("!", "^")) else inside
    return f"[{inside}]", end + 1
