"""Numbers: what a series does, as few plain facts as the rules need. Pure."""

from collections.abc import Sequence
from itertools import islice, pairwise
from math import isfinite, isnan
from statistics import median

from pitstop.core.finding import Curve
from pitstop.logs.history import Series

MOST_DRAWN = 300  # points of a curve: more are not seen in a frame of 720
SPARSE = 3  # numbers at least
MOSTLY = 0.9  # of them have NaN on both sides
NORMAL = 1.4826  # times the median deviation is the standard deviation of a normal noise


def first_bad(series: Series) -> int | None:
    """The position of the first number that is not finite, unless NaN says "not measured"."""
    if _is_sparse(series.values):
        return None
    return next((place for place, value in enumerate(series.values) if not isfinite(value)), None)


def _is_sparse(values: Sequence[float]) -> bool:
    """Whether numbers stand between NaN, as in a table where each step fills some columns."""
    known = [place for place, value in enumerate(values) if not isnan(value)]
    apart = sum(after - before > 1 for before, after in pairwise(known))
    return len(known) > SPARSE and apart >= MOSTLY * (len(known) - 1)


def finite(values: Sequence[float]) -> list[float]:
    """The values that are numbers."""
    return [value for value in values if isfinite(value)]


def spread(values: Sequence[float]) -> float:
    """How far values usually are from their median, which a few wild ones do not change."""
    middle = median(values)
    return NORMAL * median(abs(value - middle) for value in values)


def at(step: float) -> str:
    """A step as people write it."""
    return f"{step:,.0f}" if step == int(step) else f"{step:g}"


def drawn(series: Series) -> Curve:
    """The series with few points, of which the extremes are kept, and what is not finite."""
    stride = max(1, 2 * len(series.values) // MOST_DRAWN)
    points: list[tuple[float, float | None]] = []
    for start in range(0, len(series.values), stride):
        places = range(start, min(start + stride, len(series.values)))
        known = [place for place in places if isfinite(series.values[place])]
        if len(known) < len(places):
            points.append((series.steps[start], None))
        if known:
            ends = {
                min(known, key=series.values.__getitem__), max(known, key=series.values.__getitem__)
            }  # fmt: skip
            points += [(series.steps[place], series.values[place]) for place in sorted(ends)]
    return Curve(series.tag, tuple(sorted(points, key=lambda point: point[0])))


def longest_tail(values: Sequence[float]) -> int:
    """How many values at the end are equal to the last one."""
    last = values[-1] if values else 0.0
    return next((back for back, value in enumerate(reversed(values)) if value != last), len(values))


def before(series: Series, step: float, most: int) -> list[float]:
    """The last values before a step."""
    places = (place for place in range(len(series.steps) - 1, -1, -1) if series.steps[place] < step)
    return [series.values[place] for place in islice(places, most)][::-1]
