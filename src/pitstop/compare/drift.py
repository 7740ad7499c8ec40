"""Drift: how far the losses of two things part, step by step, against how far A's own runs do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import median

from pitstop.compare.pairs import SMALLEST
from pitstop.core.comparison import Comparison
from pitstop.core.evidence import Evidence
from pitstop.core.units import precise_percent

LOSS = "loss"
KIN = 8  # runs of each kind held against each other: 28 pairs of kin tell how far they part


def loss_drift(before: Sequence[Evidence], after: Sequence[Evidence]) -> Comparison | None:
    """The largest relative difference of two losses of the same step; ``None`` without losses.

    Of the pairs it is the median, held against the most that runs of the same command part.
    """
    if not all(_known(each) for each in (*before, *after)):
        return None
    found = Comparison(
        LOSS, "inconclusive", pairs=len(before), before=_last(before), after=_last(after)
    )
    if any(each.left_out_slices for each in (*before, *after)):
        return replace(found, reason="runs too long to keep every step: compare shorter ones")
    broken = _broken(after)
    if broken and not _broken(before):
        return replace(found, verdict="worse", reason=f"not finite in B at step {broken}")
    apart = median(_apart(a, b) for a, b in zip(before, after, strict=True))
    own = max(_among_kin(before, after), default=0.0)
    low = 1 + apart if apart > own else 1.0
    return _judged(replace(found, ratio=1 + apart, low=low, high=1 + apart), apart, own)


def _judged(found: Comparison, apart: float, own: float) -> Comparison:
    if not apart:
        return replace(found, verdict="same", reason="equal to the last digit, step by step")
    said = f"apart by {precise_percent(apart)}, runs of one command by {precise_percent(own)}"
    if apart <= max(own, SMALLEST):
        if own <= SMALLEST:
            return replace(found, verdict="same", reason=said)
        return replace(found, reason=f"{said}: seed the script to tell")
    return replace(found, reason=f"{said}: a --metric can tell if that is better")


def _among_kin(before: Sequence[Evidence], after: Sequence[Evidence]) -> Iterator[float]:
    for runs in (before, after):
        yield from (_apart(a, b) for a, b in combinations(runs[:KIN], 2))


def _apart(a: Evidence, b: Evidence) -> float:
    """The largest relative difference; 0 where both are equal, 2 at most."""
    both = [
        (x, y)
        for one, other in zip(a.steps, b.steps, strict=False)
        for x, y in zip(one.losses, other.losses, strict=False)
        if x is not None and y is not None and x != y
    ]
    return max((abs(x - y) / max(abs(x), abs(y)) for x, y in both), default=0.0)


def _known(evidence: Evidence) -> list[float]:
    return [step.loss for step in evidence.steps if step.loss is not None]


def _last(runs: Sequence[Evidence]) -> float:
    return median(_known(each)[-1] for each in runs)


def _broken(runs: Sequence[Evidence]) -> int | None:
    """The first step, from 1, at which any of the runs lost its finite loss."""
    places = [
        place for each in runs for place, step in enumerate(each.steps, 1) if not step.loss_finite
    ]
    return min(places, default=None)
