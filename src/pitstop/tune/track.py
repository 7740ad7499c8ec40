"""Track: what a search may ask of the script, whoever runs it: processes, or a simulation."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample
from pitstop.core.trial import Verdict
from pitstop.tune.plan import Toggle, Wanted

Changes = tuple[Wanted, ...]
Patience = Callable[[], float]  # seconds that a run may take, asked when it begins
LEAST_PATIENCE = 2  # times what a run takes: a busy machine must not end one
UNTIMED: Pairs[float] = Pairs()


def forever() -> float:
    """As long as it takes."""
    return math.inf


class RunError(Exception):
    """A run that came to nothing, and what that means for the change that was tried."""

    def __init__(self, verdict: Verdict, note: str, hasty: bool = False) -> None:
        super().__init__(note)
        self.verdict: Verdict = verdict
        self.note = note
        self.hasty = hasty  # with a larger budget it might have come to something


@dataclass(frozen=True, slots=True)
class Checked:
    """A fresh run with some changes, its numbers held against those of the untouched script."""

    refused: Verdict | None = None  # null: it ran, and its numbers hold, or are open
    note: str = ""
    step_ms: float | None = None
    peak_bytes: int | None = None
    drift: float | None = None  # largest relative error
    tolerance: float | None = None  # what rounding alone would do
    compile_s: float = 0.0  # torch.compile's part of the run
    slow_s: float = 0.0  # what its first steps took beyond the usual, for whatever reason
    apart: float = 0.0  # of the untouched script: how far two runs of it part in time
    batch: int | None = None  # samples in a step, where that is known
    waits: float = 0.0  # for data, as a share of its steps
    noise: float = 0.0  # by which its single steps differ, as a share
    recompiled: int = 0  # functions compiled again, for other shapes or values
    steps: int = 0  # that it did
    others: float = 0.0  # share of the cores that other programs used meanwhile
    times: Pairs[float] = UNTIMED  # of its last change off and on, where the run went on so
    needs_seeds: bool = False  # other random numbers: whether it holds is for ``over_seeds`` to say


class Track(Protocol):
    """A run that comes to nothing raises ``RunError``."""

    known_s: float  # of what is left, so much is that of answers on the disk, from before

    def check(
        self,
        changes: Changes,
        toggle: Toggle | None = None,
        patience_s: Patience = forever,
        new: int = 1,
    ) -> Checked:
        """Run it once with these changes, and look at its numbers; not longer than ``patience_s``.

        So many of the last are new, the others were kept before. With a toggle the run goes on: the
        last of them are switched off and on, and timed.
        """

    def over_seeds(self, changes: Changes) -> Checked:
        """The verdict on numbers that a check left open: runs with other seeds, of both sides."""

    def sample(self, changes: Changes) -> Sample:
        """Run it once with these changes, to be timed."""

    def blocks(self, changes: Changes, toggle: Toggle) -> Pairs[float]:
        """Milliseconds of a step with the last changes off and on, in pairs of blocks.

        There are fewer than wanted where they tell enough, or the script ends before.
        """

    def each(self, changes: Changes, toggle: Toggle) -> tuple[Pairs[float], ...]:
        """Likewise, with each of the last changes off and on by itself, all others being on."""

    def knows(self, changes: Changes, /) -> bool:
        """Whether another answer with these changes lies on the disk, from before an interruption.

        What was decided then need not be decided again by what time there is now.
        """

    def left_s(self) -> float:
        """How much of the budget is left."""


def label(wanted: Wanted) -> str:
    """A change as people read it: ``loader workers=2``."""
    return " ".join([wanted.name, *(f"{key}={value}" for key, value in wanted.options.items())])
