"""PIT714 throughput-drops."""

from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median, quantiles

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.core.units import percent
from pitstop.logs.history import Run, Series
from pitstop.logs.numbers import at, drawn
from pitstop.logs.pace import pace_of

BLOCKS = 20  # of a run; their medians are not changed by pauses for validation
FEWEST = 80  # entries: four for each block
SLOW = 0.7  # of the usual pace; less than that is weather
LATEST = 1e11  # seconds since 1970, in the year 5138: beyond it is a damaged record
LASTING = 2  # blocks one after the other


@rule("PIT714")
def throughput_drops(run: Run) -> Iterator[Finding]:
    """Steps become slower in the middle of a run, and stay so for a while.

    The time of day tells what else began then: another job, a backup, a full disk, a GPU that
    throttles in the afternoon. A drop that lasts comes from the run: memory that grows, a cache
    that is full.

    Bad:
        Run(
            "a",
            (
                Series(
                    "loss",
                    tuple(range(200)),
                    (1.0,) * 200,
                    tuple(1e9 + (n if n < 100 else 3 * n - 200) for n in range(200)),
                ),
            ),
        )

    Good:
        Run("a", (Series("it/s", tuple(range(200)), (9.0,) * 200),))
    """
    paced = pace_of(run)
    if paced is None or len(paced.values) < FEWEST:
        return
    size = len(paced.values) // BLOCKS
    rates = [median(paced.values[size * n : size * (n + 1)]) for n in range(BLOCKS)]
    usual = quantiles(rates[1:], n=4)[2]
    slow = [rate < SLOW * usual for rate in rates]
    slow[0] = False  # the first steps of a run compile and fill caches
    begin, end = _longest(slow)
    if end - begin < LASTING:
        return
    pace = median(rates[begin:end])
    lasts = end == BLOCKS
    first, last = size * begin, min(size * end, len(paced.values)) - 1
    until = "to the end" if lasts else f"to about step {at(paced.steps[last])}{_clock(paced, last)}"
    yield Finding(
        f"{paced.tag} falls from {usual:.3g} to {pace:.3g} ({percent(1 - pace / usual)}) from "
        f"about step {at(paced.steps[first])}{_clock(paced, first)} {until}.",
        item=paced.tag,
        cure="look at what else ran then; `pitstop profile` says where a step goes",
        confidence="measured",
        curves=(drawn(paced),),
        mark=paced.steps[first],
    )


def _longest(slow: list[bool]) -> tuple[int, int]:
    """Begin and end of the longest stretch."""
    best, begin = (0, 0), 0
    for place, each in enumerate([*slow, False]):
        if not each:
            best = max(best, (begin, place), key=lambda stretch: stretch[1] - stretch[0])
            begin = place + 1
    return best


def _clock(series: Series, place: int) -> str:
    if not series.times or not 0 < series.times[place] < LATEST:
        return ""
    return f" ({datetime.fromtimestamp(series.times[place], UTC):%d %b %H:%M} UTC)"
