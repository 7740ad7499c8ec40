"""Expectations: what must and must not be found in a workload, from its ``expect.toml``."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent
TAG = "# pit: "  # marks the line of a defect in the workload's source


@dataclass(frozen=True, slots=True)
class Expected:
    """One finding that must be made: at a tagged line, or in words where there is no line."""

    code: str
    file: str = ""
    at: str = ""  # the tag behind ``# pit:``
    when: str = ""  # in words: where no line can be named, or what a short run does not show
    device: str = ""  # "cuda" where only a GPU shows it


@dataclass(frozen=True, slots=True)
class Never:
    """A rule that must not fire, and why an expert would disagree with it."""

    code: str
    why: str


@dataclass(frozen=True, slots=True)
class Quality:
    """The metric that must be kept, at small size and seed 0, after that many steps."""

    metric: str
    after_steps: int
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """One workload's expectations, by the means that must see them."""

    quality: Quality
    source: tuple[Expected, ...] = ()
    run: tuple[Expected, ...] = ()
    machine: tuple[Expected, ...] = ()
    data: tuple[Expected, ...] = ()
    never: tuple[Never, ...] = ()
    learn: tuple[str, ...] = ()  # options that make the script train, where it does not by itself


def load(name: str) -> Expect:
    """The expectations of the workload ``name``."""
    fields = tomllib.loads((FOLDER / name / "expect.toml").read_text(encoding="utf-8"))
    return msgspec.convert(fields, Expect)


def line_of(name: str, expected: Expected) -> int:
    """The line, from 1, that carries the expectation's tag."""
    lines = (FOLDER / name / expected.file).read_text(encoding="utf-8").splitlines()
    tag = TAG + expected.at
    found = [number for number, line in enumerate(lines, 1) if line.rstrip().endswith(tag)]
    if len(found) != 1:
        raise ValueError(f"{name}/{expected.file}: tag {tag!r} stands on {len(found)} lines, not 1")
    return found[0]
