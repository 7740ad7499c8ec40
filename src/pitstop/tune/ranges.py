"""Ranges: which values an option of a change may have.

A file of kept changes may come from a stranger, or from a much larger machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pitstop.core.errors import PitstopError
from pitstop.tune.plan import Options, Value


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, both ends included."""

    least: int
    most: int

    def holds(self, value: Value) -> bool:
        """Whether a value is in it."""
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Number:
    """Any number, both ends included."""

    least: float
    most: float

    def holds(self, value: Value) -> bool:
        """Whether a value is in it; what is no number is in none."""
        return type(value) in {int, float} and self.least <= float(value) <= self.most

    def __str__(self) -> str:
        return f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some values."""

    values: tuple[str | bool, ...]

    def holds(self, value: Value) -> bool:
        """Whether a value is one of them: 1 is not true."""
        return any(type(value) is type(each) and value == each for each in self.values)

    def __str__(self) -> str:
        return ", ".join(str(each).lower() for each in self.values)


Range = Whole | Number | OneOf
NO_RANGES: Mapping[str, Range] = {}


def check(name: str, options: Options, ranges: Mapping[str, Range]) -> None:
    """Refuse the options of a change that it does not have, and values that it does not know."""
    for option, value in options.items():
        if option not in ranges:
            known = f"it knows {', '.join(ranges)}" if ranges else "it has none"
            raise PitstopError(f"{name}: no option {option!r}: {known}")
        if not ranges[option].holds(value):
            raise PitstopError(f"{name}: {option} = {value!r}: choose from {ranges[option]}")
