"""Build: points as they come from a log, kept as series that stay small however long it is."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from pitstop.logs.history import Run, Series

MOST_POINTS = 5_000  # of a series; when it has twice as many, each four become two or three
MOST_SERIES = 5_000  # tags of one run: more are not read by people
KEPT_OF = 4


class Point(NamedTuple):
    """One number of a log; a tuple, since there are millions of them."""

    tag: str
    step: float
    value: float
    time: float = 0.0  # seconds since 1970; 0: the log does not tell


@dataclass(slots=True)
class _Growing:
    """A series of evenly thinned points: ``stride`` entries of the log become up to three."""

    kept: list[Point] = field(default_factory=list)
    waiting: list[Point] = field(default_factory=list)
    stride: int = 1
    logged: int = 0

    def add(self, point: Point) -> None:
        """One more point."""
        self.logged += 1
        self.waiting.append(point)
        if len(self.waiting) < self.stride:
            return
        self.settle()
        if len(self.kept) >= 2 * MOST_POINTS:
            groups = (self.kept[at : at + KEPT_OF] for at in range(0, len(self.kept), KEPT_OF))
            self.kept = [each for group in groups for each in _extremes(group)]
            self.stride *= 2

    def settle(self) -> None:
        """Keep of what waits what it needs to be drawn and judged."""
        few = len(self.waiting) < KEPT_OF
        self.kept += self.waiting if few else _extremes(self.waiting)
        self.waiting = []

    def go_back_to(self, step: float) -> None:
        """A run that was resumed makes some steps anew: these replace what was there."""
        self.settle()
        while self.kept and self.kept[-1].step >= step:
            self.kept.pop()


def _extremes(points: list[Point]) -> list[Point]:
    """The lowest, the highest and the first that is not finite: no spike and no NaN is lost."""
    places = [place for place, point in enumerate(points) if isfinite(point.value)]
    wild = [place for place, point in enumerate(points) if not isfinite(point.value)][:1]
    ends = (
        {pick(places, key=lambda place: points[place].value) for pick in (min, max)}
        if places
        else set()
    )
    return [points[place] for place in sorted({*ends, *wild})]


class Builder:
    """Collects the points of one run."""

    def __init__(self) -> None:
        self.series: dict[str, _Growing] = {}
        self.left_out = 0

    def add(self, points: Iterable[Point]) -> None:
        """All points of one file; the first of each tag may go back behind the file before."""
        begun: set[str] = set()
        for point in points:
            if not isfinite(point.step):
                continue
            growing = self.series.get(point.tag)
            if growing is None:
                if len(self.series) >= MOST_SERIES:
                    self.left_out += 1
                    continue
                growing = self.series[point.tag] = _Growing()
            if point.tag not in begun:
                begun.add(point.tag)
                growing.go_back_to(point.step)
            growing.add(point)

    def run(self, name: str, kind: str, torn: str) -> Run:
        """What was collected, by tag."""
        series = tuple(_finished(tag, each) for tag, each in sorted(self.series.items()))
        return Run(name, series, kind, torn)


def _finished(tag: str, growing: _Growing) -> Series:
    growing.settle()
    points = growing.kept
    return Series(
        tag,
        tuple(point.step for point in points),
        tuple(point.value for point in points),
        tuple(point.time for point in points) if any(point.time for point in points) else (),
        growing.logged,
    )
