"""Forms: a system as found, tuned, fast, or with some of its edits, each as a command to run."""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pitstop.core.errors import PitstopError
from pitstop.workloads import edits

FOLDER = Path(__file__).parent
AS_FOUND, TUNED, FAST = "as found", "tuned", "fast"
PACED = ("-m", "pitstop.workloads.paced")


@dataclass(frozen=True, slots=True)
class Size:
    """What the system is run with at one size, and the samples of one step."""

    batch: int
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    note: str = ""  # what is not as its authors had it


@dataclass(frozen=True, slots=True)
class Settings:
    """``bench.toml`` of one system."""

    small: Size
    full: Size
    phases: dict[str, str] = field(default_factory=dict)  # name -> function timed beside the steps


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a system, under the name that its row has."""

    name: str
    system: str
    words: tuple[str, ...]  # of ``paced``: slow, fast, "only one+other"
    tuned: Path | None = None  # kept changes, put on from outside

    def command(self, record: Path, options: tuple[str, ...]) -> list[str]:
        """The words that run it in paces."""
        paced = (*PACED, str(record), self.system, *self.words, "--", *options)
        outside = ("-m", "pitstop", "run", "--with", str(self.tuned)) if self.tuned else ()
        return [sys.executable, "-W", "ignore", *outside, *paced]


def settings(name: str) -> Settings:
    """How the system is run."""
    path = FOLDER / name / "bench.toml"
    if not path.is_file():
        known = ", ".join(names())
        raise PitstopError(f"no workload {name!r}: choose from {known}")
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Settings)


def names() -> list[str]:
    """The systems, in order."""
    return sorted(each.parent.name for each in FOLDER.glob("*/bench.toml"))


def forms(name: str, tuned: Path | None = None) -> list[Form]:
    """As found, tuned where there is what was kept, and fast."""
    between = [Form(TUNED, name, ("slow",), tuned)] if tuned else []
    return [Form(AS_FOUND, name, ("slow",)), *between, Form(FAST, name, ("fast",))]


def waterfall(name: str) -> list[Form]:
    """Each edit alone, and with all those before it; the last of these is ``fast``."""
    every = [each.name for each in edits.load(name)]
    alone = [Form(f"alone: {each}", name, ("only", each)) for each in every]
    sums = [
        Form(f"up to: {every[last - 1]}", name, ("only", "+".join(every[:last])))
        for last in range(2, len(every))
    ]
    return [*alone, *sums]


def environment(own: Mapping[str, str], size: Size) -> dict[str, str]:
    """What a form sees: the caller's variables, and those of its size."""
    quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    return {**own, **quiet, **size.environment}
