"""Plan: what a trial tells the script's process, and what that process answers.

Both sides read this file, so it needs neither torch nor anything that is not in Python itself: the
interpreter of the script may have less installed than ours.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Value = str | int | float | bool
Options = Mapping[str, Value]

BEGIN = "pitstop.tune.inside.script:begin"  # what ``profile`` calls, with a plan
LEARNING_STEPS = 3  # in which it is looked at: the warm-up, whose time does not count
CHANGES, BATCHES = "changes.json", "batches.jsonl"
LEARNING = "learning.jsonl"
OUTPUTS, VALUES = "outputs.json", "outputs.f32"
FIRST_STEPS = "first_steps.jsonl"
ACTIVITY, CALLS, LINES = "activity.json", "calls", "lines"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change to apply, by name, and its options."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to one run of the script. Travels as JSON."""

    changes: tuple[Wanted, ...] = ()
    seed: int | None = None  # set before the script's first line; its own prevail, moved by that
    perturb: str | None = None  # move each weight by units in the last place of this precision
    signs: int = 1  # which of the ways to move them: up or down is drawn by this seed
    units: int = 1  # by which each is moved
    outputs: bool = False  # keep samples of what the models return
    closely: bool = False  # and, of the first steps, of each gradient and each module
    steps: int | None = None  # the run ends after so many
    trains: bool = False  # steps end with an optimizer's; false where that is not known
    earnest: bool = False  # no trial of it alone: a change that fails does not end the run
    folder: str = ""  # where the answers go; absolute

    def to_json(self) -> str:
        """The argument of ``begin``."""
        return json.dumps(asdict(self))


def read_plan(text: str) -> Plan:
    """The plan that ``to_json`` wrote; fields left out are as usual."""
    fields = json.loads(text)
    fields["changes"] = tuple(Wanted(**each) for each in fields.get("changes", ()))
    return Plan(**fields)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change in a run: it took hold so often, or why it did not."""

    name: str
    options: Options
    applied: int
    declined: str  # the reason; empty where it took hold
    effect: str = ""  # on the numbers of this script, where it is not the one the change declares
    failed: bool = False  # and was taken off, which was said at once
    lost: tuple[str, ...] = ()  # what the script would lose by it beside its numbers, in words


def read_outcomes(folder: Path) -> list[Outcome]:
    """What became of each change, in the order of the plan; none where the run never began.

    Ranks that the script starts tell by themselves: where one was changed, that counts, else what
    the latest of them tells.
    """
    files = folder.glob(f"*-{CHANGES}")
    latest = sorted(files, key=lambda path: int(path.name.partition("-")[0]), reverse=True)
    told = [[Outcome(**each) for each in _read(path)] for path in latest]
    return [
        max(each, key=lambda one: one.applied) for each in zip(*filter(None, told), strict=True)
    ]


def write(folder: Path, name: str, rows: list[Outcome]) -> None:
    """Write answers so that a reader sees all of them or those of before."""
    if not speaks():
        return
    new = folder / f"{name}.{os.getpid()}"
    new.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    new.replace(folder / (f"{os.getpid()}-{name}" if name == CHANGES else name))


def speaks() -> bool:
    """Whether this process tells for all ranks that torchrun has started with it."""
    return os.environ.get("RANK", "0") == "0"


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return rows if isinstance(rows, list) else []
