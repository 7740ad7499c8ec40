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

BEGIN = (
    "pitstop.tune.script:begin"  # what ``profile`` is asked to call, with a plan as its argument
)
# Steps before each pair of blocks that are not timed: what a script does every few steps must not
# meet the same side each time. Where all of six pairs must agree it cannot. Of many such rows this
# is one with which periods up to 16 are told from a gain in 97 of 100 comparisons, or more.
PAUSES = (0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 0, 0, 1, 0, 1, 2, 1, 2, 1, 2, 2, 2, 2)
SHORTEST_EPOCH = 4  # steps: where epochs begin more often than that, it is what steps are like
LEARNING_STEPS = 3  # in which it is looked at: the warm-up, whose time does not count
CHANGES, BLOCKS, BATCHES = "changes.json", "blocks.json", "batches.jsonl"
LEARNING = "learning.jsonl"
RANKED = "ranked"  # there where a rank has answered
OUTPUTS, VALUES = "outputs.json", "outputs.f32"
ACTIVITY, CALLS, LINES = "activity.json", "calls", "lines"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change to apply, by name, and its options."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Toggle:
    """Switch the last changes off and on in blocks of steps, to time them inside one process."""

    steps: int = 4  # timed in each block
    warmup: int = 6  # before the first block, the last of them with the changes off
    lead: int = 1  # steps after a switch that come before the timed ones, and pay for it
    changes: int = 1  # so many of the last are switched together
    each: bool = False  # or one after the other, each with all others on
    lead_off: int | None = None  # after they are switched off; null: as many as after on
    pairs: int = 6  # of blocks, at most
    looks: bool = True  # and fewer where a look at them tells enough
    epochs: bool = False  # a step in which an epoch begins is timed as any other

    def lead_of(self, number: int) -> int:
        """Steps before a block that are not timed: after a switch, and between two pairs."""
        pair, second = divmod(number, 2)
        pause = 0 if second else PAUSES[pair % len(PAUSES)]
        if number and is_on(number) == is_on(number - 1):
            return pause
        return pause + (self.lead if is_on(number) or self.lead_off is None else self.lead_off)

    @property
    def members(self) -> int:
        """How many are switched by themselves, all together being one."""
        return self.changes if self.each else 1

    def length(self, blocks: int) -> int:
        """Steps of a run with so many blocks, in which no epoch begins."""
        return self.warmup + sum(self.lead_of(each) + self.steps for each in range(blocks))


def is_on(number: int) -> bool:
    """Whether the changes are on in this block, counted from 0: off on, on off, off on ..."""
    return number % 4 in {1, 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do to one run of the script. Travels as JSON."""

    changes: tuple[Wanted, ...] = ()
    seed: int | None = None  # set before the script's first line; its own prevail, moved by that
    perturb: str | None = None  # move each weight by units in the last place of this precision
    signs: int = 1  # which of the ways to move them: up or down is drawn by this seed
    units: int = 1  # by which each is moved
    outputs: bool = False  # keep samples of what the models return
    toggle: Toggle | None = None
    steps: int | None = None  # the run ends after so many
    trains: bool = False  # steps end with an optimizer's; false where that is not known
    earnest: bool = False  # the user's own run, no trial: a change that fails does not end it
    folder: str = ""  # where the answers go; absolute

    def to_json(self) -> str:
        """The argument of ``begin``."""
        return json.dumps(asdict(self))


def read_plan(text: str) -> Plan:
    """The plan that ``to_json`` wrote; fields left out are as usual."""
    fields = json.loads(text)
    fields["changes"] = tuple(Wanted(**each) for each in fields.get("changes", ()))
    toggle = fields.get("toggle")
    return Plan(**{**fields, "toggle": Toggle(**toggle) if toggle else None})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change in a run: it took hold so often, or why it did not."""

    name: str
    options: Options
    applied: int
    declined: str  # the reason; empty where it took hold
    effect: str = ""  # on the numbers of this script, where it is not the one the change declares
    failed: bool = False  # and was taken off, which was said at once


@dataclass(frozen=True, slots=True)
class Block:
    """Steps with the toggled change on or off. ``ms`` is the mean step by the clock.

    They are neighbours but for those in which an epoch begins. Where there is a GPU its queue was
    empty at both ends of the block.
    """

    on: bool
    first: int  # steps before it, and those of it that were not timed
    steps: int
    ms: float
    member: int = 0  # which of the changes is switched, where each is by itself


def read_outcomes(folder: Path) -> list[Outcome]:
    """What became of each change, in the order of the plan; none where the run never began."""
    return [Outcome(**each) for each in _read(folder / CHANGES)]


def read_blocks(folder: Path) -> list[Block]:
    """The finished blocks of a toggled run, in the order off on, on off, off on ..."""
    return [Block(**each) for each in _read(folder / BLOCKS)]


def write(folder: Path, name: str, rows: "list[Outcome] | list[Block]") -> None:
    """Write answers so that a reader sees all of them or those of before."""
    if not speaks(folder):
        return
    if "RANK" in os.environ:
        (folder / RANKED).touch()
    new = folder / f"{name}.{os.getpid()}"
    new.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    new.replace(folder / name)


def speaks(folder: Path) -> bool:
    """Whether this process tells for all; not where it has only launched those that do."""
    rank = os.environ.get("RANK")
    return rank == "0" or (rank is None and not (folder / RANKED).exists())


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return rows if isinstance(rows, list) else []
