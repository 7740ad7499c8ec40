"""Configuration: ``[tool.pitstop]`` of pyproject.toml, or pitstop.toml, nearest above the paths."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitstop.core.errors import PitstopError
from pitstop.core.reading import read_regular

LARGEST_BYTES = 1_000_000  # of a file with settings that people write
KEYS = ("select", "ignore", "per-file-ignores", "exclude")


@dataclass(frozen=True, slots=True)
class Config:
    """What a project has settled for all its scans."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()


def find_config(start: Path) -> Config:
    """The nearest configuration at or above ``start``; an empty one where there is none."""
    whole = start.absolute()
    for above in (whole, *whole.parents):
        own = above / "pitstop.toml"
        if _is_file(own):
            return parse_config(_load(own), str(own))
        shared = above / "pyproject.toml"
        if _is_file(shared):
            tools = _load(shared).get("tool")
            table = tools.get("pitstop") if isinstance(tools, dict) else None
            if table is not None:
                return parse_config(table, f"{shared}: [tool.pitstop]")
    return Config()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that is not ours to look into
        return False


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, LARGEST_BYTES).decode())
    except OSError as error:
        raise PitstopError(f"{path}: {error.strerror}; mend the file or remove it") from None
    except (ValueError, RecursionError) as error:  # what it is not in UTF-8 or TOML
        raise PitstopError(f"{path}: {error}; mend the file or remove it") from None


def parse_config(table: Any, where: str) -> Config:
    """Check every key and type; a misspelt key is an error, never silently nothing."""
    if not isinstance(table, dict):
        raise PitstopError(f"{where} must be a table")
    for key in table:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KEYS)}"
            raise PitstopError(f"{where} has an unknown key {key!r}: {hint}")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise PitstopError(f"{where} per-file-ignores must be a table of glob = [codes]")
    return Config(
        _words(table, "select", where),
        _words(table, "ignore", where),
        {glob: _words(per_file, glob, where) for glob in per_file},
        _words(table, "exclude", where),
    )


def _words(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PitstopError(f"{where} {key} must be a list of strings")
    return tuple(value)
