"""Edits: what leads from a slow system to its fast one, so that each can be run alone.

    python -m pitstop.workloads.edits frame_interpolation --only warp+attention -- --small

``edits.toml`` of a system lists them in the order of its waterfall. An edit is undone by putting
what the slow system has in the place of what the fast one has: ``"fast:make_loaders" =
"slow:make_loaders"``. So the fast system itself needs no switches.
"""

import importlib
import sys
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from pitstop.core.errors import PitstopError

FOLDER = Path(__file__).parent
USAGE = "python -m pitstop.workloads.edits NAME [--only EDIT+EDIT | --without EDIT] -- ARGUMENTS"


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a system's source."""

    name: str
    what: str  # in words, for the waterfall
    undo: dict[str, str | bool | int]  # place in the fast system -> what the slow one has there


def load(name: str) -> tuple[Edit, ...]:
    """The edits of one system, in order."""
    path = FOLDER / name / "edits.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.parent.name for each in FOLDER.glob("*/edits.toml")))
        raise PitstopError(f"no system {name!r} with a fast.py: choose one of {known}")
    return msgspec.convert(
        tomllib.loads(path.read_text(encoding="utf-8"))["edit"], tuple[Edit, ...]
    )


def undo(name: str, edits: Collection[Edit]) -> None:
    """Give the fast system what the slow one has, for good: this process runs no other."""
    for edit in edits:
        for place, found in edit.undo.items():
            where, _, path = place.partition(":")
            owner, _, attribute = path.rpartition(".")
            module = _module(name, where)
            value = _at(name, found) if isinstance(found, str) else found
            setattr(attrgetter(owner)(module) if owner else module, attribute, value)


def _at(name: str, place: str) -> Any:
    where, _, path = place.partition(":")
    return attrgetter(path)(_module(name, where))


def _module(name: str, where: str) -> Any:
    """A file of the system, or any other module."""
    package = f"pitstop.workloads.{name}"
    inside = (FOLDER / name / f"{where}.py").is_file()
    return importlib.import_module(f"{package}.{where}" if inside else where)


def main(words: list[str]) -> None:
    """Run the fast system with some of its edits."""
    cut = words.index("--") if "--" in words else len(words)
    match words[:cut]:
        case [name, "--only" | "--without" as way, chosen]:
            wanted = set(filter(None, chosen.split("+")))
            every = load(name)
            if unknown := wanted - {each.name for each in every}:
                known = ", ".join(each.name for each in every)
                raise SystemExit(f"no edit {unknown.pop()!r} of {name}: choose from {known}")
            undo(name, [each for each in every if (each.name in wanted) == (way == "--without")])
        case _:
            raise SystemExit(USAGE)
    _module(name, "fast").main(words[cut + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
