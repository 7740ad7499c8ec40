"""PIT710 metric-frozen."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite
from statistics import median

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run
from pitstop.logs.numbers import at, drawn, first_bad, longest_tail
from pitstop.logs.tags import LOSS, is_quality

FEWEST = 10  # equal entries; fewer may be chance in a loss that is printed with few digits
SHARE = 0.1  # of the run
VARIED = 5  # different values before
LAST = 20  # values right before, which say how much the loss still moved
STEPS = 3  # of the last digit that is printed: a loss that moves no more may stand still


@rule("PIT710")
def metric_frozen(run: Run) -> Iterator[Finding]:
    """A loss stops changing: the same number to the last digit, again and again.

    Numbers of a run that learns never repeat so. Some code replaces what is not finite: by zero,
    or by the last good value, as the Trainer of transformers does. The flat line is a NaN.

    Bad:
        Run("a", (Series("loss", tuple(range(60)), tuple(1 / (1 + min(n, 9)) for n in range(60))),))

    Good:
        Run("a", (Series("loss", tuple(range(60)), tuple(1 / (1 + n) for n in range(60))),))
    """
    for series in run.series:
        if not LOSS.search(series.tag) or not is_quality(series.tag):
            continue
        values = series.values
        tail = longest_tail(values)
        varied = len(set(values[:-tail])) >= VARIED
        if tail < max(FEWEST, SHARE * len(values)) or not varied or not isfinite(values[-1]):
            continue
        if _has_arrived(values[:-tail]):
            continue
        step = series.steps[len(values) - tail]
        bad = [
            each.tag
            for each in run.series
            if (place := first_bad(each)) is not None and each.steps[place] <= step
        ]
        beside = f"; {bad[0]} is not finite by then" if bad else ""
        yield Finding(
            f"{series.tag} is {values[-1]:.6g} in all {tail} entries from step {at(step)} "
            f"on{beside}.",
            item=series.tag,
            cure="log the loss itself; logging_nan_inf_filter=False in transformers' Trainer",
            severity="error",
            confidence="certain" if bad else "suspected",
            curves=(drawn(series),),
            mark=step,
        )
        return


def _has_arrived(values: Sequence[float]) -> bool:
    """Whether a loss that is printed with few digits had come down to its last one."""
    last = values[-LAST:]
    digits = max(len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in last)
    moved = median(abs(after - before) for before, after in pairwise(last))
    return moved <= STEPS * 0.1**digits
