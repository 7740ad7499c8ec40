"""Printable: text of strangers made harmless for a terminal. This is the only place that does it.

A file's name may hold a command to the terminal: set its title, clear it, write to the clipboard.
Whatever is no visible character is shown as Python would write it, such as ``\\x1b``.
"""

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from pitstop.core.evidence import NUMBERS_ONLY

Value = TypeVar("Value")

CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # C0, C1: what escape sequences begin with, and line breaks
    r"\u2028\u2029"  # further line breaks
    r"\u202a-\u202e\u2066-\u2069"  # turn the direction of what follows, so that it reads otherwise
    r"\ud800-\udfff]"  # bytes of a file's name that are no text: no stream can write them
)
CONTROLS_BUT_LAYOUT = re.compile(rf"(?![\n\t]){CONTROLS.pattern}")


def printable(text: str) -> str:
    """The text on one line, with everything that is not visible written out."""
    return CONTROLS.sub(_written_out, text)


def printable_lines(text: str) -> str:
    """The same for a text that has lines: their ends and tabs stay."""
    return CONTROLS_BUT_LAYOUT.sub(_written_out, text)


def printable_json(text: str) -> str:
    """The same for JSON, which has its own way to write a character and loses nothing by it."""
    return CONTROLS_BUT_LAYOUT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable_value(value: Value) -> Value:
    """A report or a part of one, with every text in it printable."""
    return cast("Value", _value(value))


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple | list):
        return type(value)(map(_value, value))
    if isinstance(value, dict):
        return {_value(key): _value(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if each.name not in NUMBERS_ONLY]
        old = {name: getattr(value, name) for name in names}
        new = {name: _value(each) for name, each in old.items()}
        return replace(value, **new) if new != old else value
    return value


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
