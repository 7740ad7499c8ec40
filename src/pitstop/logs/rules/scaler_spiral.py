"""PIT702 scaler-spiral."""

from collections.abc import Iterator
from itertools import pairwise
from math import log2

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run
from pitstop.logs.numbers import drawn, finite
from pitstop.logs.tags import scales

HALVINGS = 8  # from 65536 the first search may take a dozen, but not late in the run
STILL_FALLING = 0.75  # of the entries; a scale that has not come to rest by then does not find any


@rule("PIT702")
def scaler_spiral(run: Run) -> Iterator[Finding]:
    """The gradient scaler halves its scale again and again, and skips a step each time.

    Bad:
        Run("a", (Series("scale", tuple(range(30)), tuple(2.0 ** (16 - n) for n in range(30))),))

    Good:
        Run("a", (Series("scale", tuple(range(30)), (65536.0,) * 30),))
    """
    for series in scales(run):
        values = finite(series.values)
        falls = [place for place, (one, two) in enumerate(pairwise(values), 1) if two < one]
        if not falls or falls[-1] < STILL_FALLING * len(values) or values[-1] <= 0:
            continue
        highest = max(values)
        if log2(highest / values[-1]) < HALVINGS:
            continue
        yield Finding(
            f"{series.tag} falls from {highest:g} to {values[-1]:g} and is still falling: "
            f"{len(falls)} times in {len(values)} entries.",
            item=series.tag,
            cure="find the first number that is not finite, or use bfloat16, which needs no scaler",
            severity="error",
            curves=(drawn(series),),
            mark=series.steps[min(falls[0], len(series.steps) - 1)],
        )
