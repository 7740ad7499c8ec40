"""Tuned: the file ``tuned.toml``, which holds what was kept, and proof of it.

It may come from a stranger: reading takes names of changes and plain options from it, nothing else.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pitstop.core import store
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError
from pitstop.core.reading import read_regular
from pitstop.tune import ranges
from pitstop.tune.change import find_change
from pitstop.tune.checked import Changes
from pitstop.tune.plan import Value, Wanted

SCHEMA = 1  # raise it when a key is renamed, removed or changes its meaning
LARGEST_BYTES = 65_536  # a hundred changes have room in it; what is larger is not ours
NAME = re.compile(r"[a-z][a-z0-9-]*")  # of a change: it becomes the name of a module
BARE = re.compile(r"[A-Za-z0-9_-]+")  # a key of TOML that needs no quotes
HEADER = """\
# Kept by `pitstop tune`: faster beyond the noise, and the numbers held.
# To run the script with them, unedited:  pitstop run --with {name} SCRIPT [ARGS ...]
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file of kept changes comes from."""

    command: str  # as it was typed
    date: str
    machine: str
    torch: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One ``[[change]]`` as the file holds it."""

    name: str
    options: dict[str, Value] = field(default_factory=dict)


def write_tuned(path: Path, kept: Changes, proof: Comparison | None, origin: Origin) -> None:
    """Write what was kept; a file that is there already is replaced, which the caller must want."""
    lines = [HEADER.format(name=path.name), *_table(_about(origin))]
    if proof is not None:
        lines += ["", "[proof]  # untouched against all kept, in adjacent pairs"]
        lines += _table(_numbers(proof))
    for wanted in kept:
        lines += ["", "[[change]]", f"name = {_value(wanted.name)}"]
        if wanted.options:
            pairs = ", ".join(_table(dict(wanted.options)))
            lines.append(f"options = {{ {pairs} }}")
    store.write_text(path, "\n".join(lines) + "\n")


def read_tuned(path: Path) -> Changes:
    """The changes of a file, in the order in which they were kept."""
    try:
        fields = tomllib.loads(read_regular(path, LARGEST_BYTES).decode("utf-8"))
    except OSError as error:
        raise PitstopError(f"{path}: {error.strerror}; `pitstop tune SCRIPT` writes one") from None
    except (ValueError, RecursionError) as error:  # TOML that is none, or bytes that are no text
        raise PitstopError(f"{path}: not valid TOML: {error}") from None
    schema = fields.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise PitstopError(f"{path}: schema {schema!r}; this Pitstop reads schema {SCHEMA}")
    try:
        entries = msgspec.convert(fields.get("change", []), list[_Entry])
    except msgspec.ValidationError as error:
        raise PitstopError(f"{path}: {error} of its changes") from None
    for entry in entries:
        if not NAME.fullmatch(entry.name):
            raise PitstopError(f"{path}: {entry.name!r} is not the name of a change")
        change = find_change(entry.name)
        if change.when.what_if:
            raise PitstopError(f"{path}: {entry.name} is for trials only: edit the source instead")
        try:
            ranges.check(entry.name, entry.options, change.ranges)
        except PitstopError as error:
            raise PitstopError(f"{path}: {error}") from None
    return tuple(Wanted(entry.name, entry.options) for entry in entries)


def _about(origin: Origin) -> dict[str, Value]:
    about: dict[str, Value] = {"schema": SCHEMA, "command": origin.command, "date": origin.date}
    about["machine"] = origin.machine
    return {**about, "torch": origin.torch} if origin.torch else about


def _numbers(proof: Comparison) -> dict[str, Value]:
    known = {
        "ratio": proof.ratio,
        "ratio_low": proof.low,
        "ratio_high": proof.high,
        "before": proof.before,
        "after": proof.after,
    }
    numbers = {key: round(each, 4) for key, each in known.items() if each is not None}
    named = {"metric": proof.metric, "unit": proof.unit, "verdict": proof.verdict}
    return {**named, "why": proof.reason, "pairs": proof.pairs, **numbers}


def _table(values: Mapping[str, Value]) -> Iterator[str]:
    for key, value in values.items():
        name = key if BARE.fullmatch(key) else _value(key)
        yield f"{name} = {_value(value)}"


def _value(value: Value) -> str:
    """JSON's numbers, truths and strings are TOML's too, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
