"""Before: which series moved just before something happened. Pure."""

from dataclasses import dataclass
from statistics import median

from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import before, finite, spread
from pitstop.logs.tags import SCALE

LAST = 3  # values right before it
USUAL = 50  # values before these, which say what is usual
FEWEST = 5  # of them
FAR = 6.0  # times the usual distance from the median: no chance
TIMES = 2.0  # and twice or half of what was usual


@dataclass(frozen=True, slots=True)
class Moved:
    """A series, what it usually was, and what it was just before."""

    series: Series
    usual: float
    to: float

    @property
    def factor(self) -> float:
        """How many times larger or smaller, at least 1."""
        small, large = sorted((abs(self.usual), abs(self.to)))
        return large / small if small else float("inf")


def what_moved(run: Run, step: float) -> Moved | None:
    """The series that moved most before a step; None where all stayed as they were."""
    found = [moved for series in run.series if (moved := _moved(series, step))]
    return max(found, key=lambda moved: moved.factor, default=None)


def _moved(series: Series, step: float) -> Moved | None:
    values = finite(before(series, step, USUAL + LAST))
    usual, last = values[:-LAST], values[-LAST:]
    if len(usual) < FEWEST:
        return None
    middle, furthest = median(usual), max(last, key=lambda value: abs(value - median(usual)))
    moved = Moved(series, middle, furthest)
    far = abs(furthest - middle) > FAR * spread(usual)
    rose = abs(furthest) > abs(middle) or SCALE.search(series.tag)  # a fall makes nothing infinite
    return moved if far and rose and middle and moved.factor >= TIMES else None
