"""Readings: the numbers of one run that a change must not spoil, read back from its recording."""

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from pitstop.core.evidence import Evidence
from pitstop.profile.read.collect import lines
from pitstop.tune.plan import (
    ACTIVITY,
    BATCHES,
    CALLS,
    FIRST_STEPS,
    LEARNING,
    LINES,
    OUTPUTS,
    VALUES,
)

IMAGE_CHANNELS = (1, 3, 4)
SMALLEST_IMAGE = 16  # pixels on the shorter side
FLOAT32_BYTES = 4

Parameter = tuple[int, int]  # which of the optimizers, and which of its parameters


@dataclass(frozen=True, slots=True)
class Output:
    """Samples of one tensor that a model returned, evenly spread."""

    module: str
    shape: tuple[int, ...]
    data: bytes  # of float32

    @property
    def values(self) -> "array[float]":
        """The samples."""
        return array("f", self.data)

    @property
    def is_image(self) -> bool:
        """Whether it has the shape of images or of a video, channels first or last."""
        if len(self.shape) < 3 or not {self.shape[-3], self.shape[-1]} & set(IMAGE_CHANNELS):
            return False
        sides = self.shape[-3:-1] if self.shape[-1] in IMAGE_CHANNELS else self.shape[-2:]
        return min(sides) >= SMALLEST_IMAGE


@dataclass(frozen=True, slots=True)
class Early:
    """Samples of a gradient, or of what a module returned, in one of the first steps."""

    step: int  # from 0
    kind: str  # "gradient" or "module"
    name: str
    length: float  # of all its numbers
    values: tuple[float, ...]  # some of them, evenly spread


@dataclass(frozen=True, slots=True)
class Readings:
    """What one run computed, step by step. Of a run without losses the outputs tell."""

    losses: tuple[float | None, ...] = ()
    earlier_losses: tuple[tuple[float | None, ...], ...] = ()  # those before the last of each step
    gradient_norms: tuple[float | None, ...] = ()
    learning: tuple[tuple[float | None, ...], ...] = ()  # two lengths of each optimizer, by step
    learns: frozenset[Parameter] = frozenset()  # what moves in some step, by more than rounding
    idle: frozenset[Parameter] = frozenset()  # what has no gradient, or does not move, in any step
    broken: tuple[int, ...] = ()  # steps, from 1, whose loss was not finite
    batches: tuple[str, ...] = ()  # a checksum of each
    outputs: tuple[Output, ...] = ()
    calls: int | None = None  # of models, by the script itself
    lines: int | None = None  # that it has printed or logged
    early: tuple[Early, ...] = ()  # in the order in which they were there

    @property
    def known_losses(self) -> list[float]:
        """The last of each step, and all that came before those."""
        return [each for each in (*self.losses, *chain(*self.earlier_losses)) if each is not None]


def read(folder: Path, evidence: Evidence) -> Readings:
    """The readings of a recorded run; of several processes, the one that is given."""
    steps = evidence.steps
    learned = list(lines(folder / LEARNING))
    activity = _activity(folder)
    return Readings(
        losses=tuple(step.loss for step in steps),
        earlier_losses=tuple(step.losses[1:] for step in steps),
        gradient_norms=tuple(step.gradient_norm for step in steps),
        learning=tuple(_learning(learned)),
        learns=frozenset((row[1], place) for row in learned for place in row[4]),
        idle=_idle(learned),
        broken=tuple(place for place, step in enumerate(steps, 1) if not step.loss_finite),
        batches=tuple(str(each) for each in lines(folder / BATCHES)),
        outputs=tuple(_outputs(folder)),
        calls=activity.get(CALLS),
        lines=activity.get(LINES),
        early=tuple(_early(folder)),
    )


def _early(folder: Path) -> Iterator[Early]:
    for step, kind, name, length, values in lines(folder / FIRST_STEPS):
        yield Early(step, kind, name, length, tuple(values))


def _learning(rows: Sequence[Any]) -> Iterator[tuple[float | None, ...]]:
    """By step, gradients and way of the first optimizer, of the second ...; none if it skips it."""
    found = {(step, number): both for step, number, *both, _, _ in rows}
    steps = range(1 + max((step for step, _ in found), default=-1))
    numbers = range(1 + max((number for _, number in found), default=-1))
    for step in steps:
        both = (found.get((step, each), (None, None)) for each in numbers)
        yield tuple(x if x is not None and isfinite(x) else None for x in chain(*both))


def _idle(rows: Sequence[Any]) -> frozenset[Parameter]:
    found: dict[int, set[int]] = {}
    for _, number, _, _, _, idle in rows:
        found[number] = found.get(number, set(idle)) & set(idle)
    return frozenset((number, place) for number, idle in found.items() for place in idle)


def _activity(folder: Path) -> dict[str, int]:
    try:
        found = json.loads((folder / ACTIVITY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _outputs(folder: Path) -> list[Output]:
    try:
        index = json.loads((folder / OUTPUTS).read_text(encoding="utf-8"))
        data = (folder / VALUES).read_bytes()
    except (OSError, ValueError):
        return []
    found, begin = [], 0
    for each in index:
        end = begin + FLOAT32_BYTES * each["values"]
        found.append(Output(each["module"], tuple(each["shape"]), data[begin:end]))
        begin = end
    return found
