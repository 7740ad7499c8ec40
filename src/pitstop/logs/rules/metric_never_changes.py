"""PIT716 metric-never-changes."""

from collections.abc import Iterator
from math import isfinite

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.logs.history import Run
from pitstop.logs.numbers import drawn, longest_tail
from pitstop.logs.tags import is_quality

FEWEST = 10  # entries; a few equal ones may be chance


@rule("PIT716")
def metric_never_changes(run: Run) -> Iterator[Finding]:
    """A loss or a metric has the same value from the first entry to the last.

    Nothing is learned, or the wrong thing is logged: a constant term, a detached copy, a metric
    of an empty validation set.

    Bad:
        Run("a", (Series("val/psnr", tuple(range(20)), (11.3,) * 20),))

    Good:
        Run("a", (Series("val/psnr", tuple(range(20)), tuple(20.0 + n for n in range(20))),))
    """
    for series in run.series:
        if not is_quality(series.tag) or len(series.values) < FEWEST:
            continue
        value = series.values[0]
        if not isfinite(value) or longest_tail(series.values) < len(series.values):
            continue
        yield Finding(
            f"{series.tag} is {value:.6g} in all {len(series.values)} entries.",
            item=series.tag,
            cure="log what the model computes: look at where this number comes from",
            curves=(drawn(series),),
        )
