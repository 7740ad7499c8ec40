"""Pace: steps per second of a run, as it logged them or as its timestamps tell. Pure."""

from dataclasses import replace
from itertools import pairwise
from math import isfinite

from pitstop.logs.history import Run, Series
from pitstop.logs.tags import SECONDS, THROUGHPUT, is_checked

SHORTEST_SECONDS = 60  # of a run: below that everything may delay it


def pace_of(run: Run) -> Series | None:
    """A throughput that was logged, else one from step times, else one from timestamps."""
    own = [each for each in run.series if not is_checked(each.tag)]
    for series in own:
        if THROUGHPUT.search(series.tag):
            return _positive(series, series.values)
    for series in own:
        if SECONDS.search(series.tag):
            inverse = tuple(1 / value if value else 0.0 for value in series.values)
            return _positive(replace(series, tag=f"steps per {series.tag}"), inverse)
    timed = [each for each in own if each.times]
    longest = max(timed, key=lambda each: len(each.steps), default=None)
    return _from_times(longest) if longest else None


def _positive(series: Series, values: tuple[float, ...]) -> Series:
    kept = [place for place, value in enumerate(values) if isfinite(value) and value > 0]
    return Series(
        series.tag,
        tuple(series.steps[place] for place in kept),
        tuple(values[place] for place in kept),
        tuple(series.times[place] for place in kept) if series.times else (),
    )


def _from_times(series: Series) -> Series:
    entries = list(zip(series.steps, series.times, strict=True))
    if entries and max(series.times) - min(series.times) < SHORTEST_SECONDS:
        entries = []
    paces = [
        (step, time, (step - before) / (time - earlier))
        for (before, earlier), (step, time) in pairwise(entries)
        if time > earlier and step > before
    ]
    steps, times, values = zip(*paces, strict=True) if paces else ((), (), ())
    return Series("steps per second", steps, values, times)
