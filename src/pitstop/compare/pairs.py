"""Pairs: run two things side by side, and say whether one is better without fooling oneself.

**Order.** Runs alternate: AB BA AB BA. The two runs of a pair are neighbours in time, so a machine
that slows down for a minute slows both, and what drifts steadily cancels over two pairs.

**Interval.** Of each pair only log(B/A) counts. The interval is the one that belongs to the sign
test: from the smallest to the largest of these when there are 6 pairs, from the second to the
eleventh of 12, from the sixth to the nineteenth of 24. Whatever the shape of the noise, it misses
the true median in 3.1, 0.6 and 0.7 % of all comparisons: a run that a neighbour disturbed is one
vote, however far off it is. Student's t would be narrower if noise were normal, which it is not.

**Looks.** We look after 6, 12 and 24 pairs and stop as soon as the answer is clear. Looking three
times gives three chances to be wrong, but the three together stay below 5 %.

**Noise.** At the border between two pairs the same command runs twice in a row: AB *BA* AB holds
B next to B, then A next to A. These neighbours are the null: an A-against-A comparison that costs
nothing and saw the same machine at the same time. Their largest difference, after as many were
left out as the interval leaves out (0, 2 and 10), is the noise; their median is the usual noise.

**Verdict.** A difference counts when the interval lies on one side of none *and* either its median
is larger than the noise, or all of it is larger than the usual noise: a machine that was slow for
a minute makes large noise, yet both runs of each pair saw it. Nothing below 1 % counts. With
simulated noise (``benchmarks/compare.py``) identical code fails a gate of 3 % less often than once
in 1000 comparisons. Things are the same when the interval lies within the noise, but never when it
reaches beyond 3 %. All else is inconclusive, with the reason.

**One run each.** Two recordings have no twins: how far two runs of one script differ is not in
them. Their interval is wider by that much on both sides, whatever their steps say.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Generic, TypeVar

from pitstop.core.comparison import Comparison, Outcome
from pitstop.core.units import percent

LOOKS = (6, 12, 24)  # doubling: a clear answer costs 6 pairs, a close one at most 24
FEWEST = 6  # with 5 pairs even agreement of all is chance in 1 comparison of 16
LATER_ERROR = 0.0094  # what 5 % leaves to each later look when the first has spent 1/32
SMALLEST = 0.01  # a difference below this is worth nobody's time
COARSEST = 0.03  # an interval that reaches further must not call two things the same
WIDEST_RATIO = 1e12  # beyond this, values are no measurements of one thing: no logarithms

Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class Pairs(Generic[Run]):
    """What the runs of A and of B gave, pair by pair."""

    before: tuple[Run, ...] = ()
    after: tuple[Run, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Quality:
    """What is compared: its name, its unit, and which direction is better."""

    name: str = "step"
    unit: str = "ms"
    higher_is_better: bool = False


STEP = Quality()


@dataclass(frozen=True, slots=True)
class Noise:
    """How far identical runs differ, as shares."""

    largest: float = 0.0
    usual: float = 0.0

    def at_least(self, floor: float) -> "Noise":
        """The same where runs are known to differ by more than is to be seen in these."""
        return Noise(max(self.largest, floor), max(self.usual, floor))


def looks_within(most: int) -> tuple[int, ...]:
    """The looks that so many pairs allow; fewer pairs than the first are looked at once."""
    return tuple(look for look in LOOKS if look <= most) or (most,)


def measure(
    run_before: Callable[[], Run],
    run_after: Callable[[], Run],
    settled: Callable[[Pairs[Run]], bool],
    looks: Sequence[int] = LOOKS,
) -> Pairs[Run]:
    """Run both in alternating pairs until a look says that all is settled, or Ctrl-C ends it."""
    found: Pairs[Run] = Pairs()
    for number in range(looks[-1]):
        try:
            if number % 2:
                after, before = run_after(), run_before()
            else:
                before, after = run_before(), run_after()
        except KeyboardInterrupt:
            return Pairs(found.before, found.after, interrupted=True)
        found = Pairs((*found.before, before), (*found.after, after))
        if number + 1 in looks and settled(found):
            break
    return found


def verdict(
    before: Sequence[float],
    after: Sequence[float],
    noise: Noise,
    quality: Quality = STEP,
    noun: str = "pair",
    unseen: float = 0.0,
    strict: bool = False,
) -> Comparison:
    """Judge B against A, pair by pair; nothing within the noise is a difference.

    By ``unseen`` A and B may differ whatever these values are: the interval is that much wider.
    ``strict`` is for who asks many times, and keeps each mistake: either measure must agree.
    """
    pairs = len(before)
    scaled_before, scaled_after, back = _scaled(before, after)
    changes = [b - a for a, b in zip(scaled_before, scaled_after, strict=True)]
    ratio = back(median(changes))
    found = Comparison(
        quality.name,
        "inconclusive",
        ratio,
        pairs=pairs,
        before=_of_the_median_pair(before, changes),
        after=_of_the_median_pair(after, changes),
        unit=quality.unit,
    )
    if pairs < FEWEST:
        return replace(found, reason=f"{FEWEST} {noun}s are the least that can tell")
    least, most = interval(changes)
    low, high = _wider(back(least), back(most), unseen)
    outcome, reason = _outcome(ratio, low, high, noise, quality, strict)
    return replace(found, verdict=outcome, reason=reason, low=low, high=high)


def noise(before: Sequence[float], after: Sequence[float]) -> Noise:
    """How far identical runs differ, from the neighbours between the pairs."""
    if len(before) < 2:
        return Noise()
    scaled_before, scaled_after, back = _scaled(before, after)
    twins = []
    for place in range(len(before) - 1):  # after AB comes BA: B beside B, and then A beside A
        side = scaled_before if place % 2 else scaled_after
        twins.append(abs(side[place + 1] - side[place]))
    kept = sorted(twins)[: len(twins) - 2 * _left_out(len(before))]
    return Noise(back(kept[-1]) - 1, back(median(twins)) - 1)


def interval(changes: Sequence[float]) -> tuple[float, float]:
    """The ends of the sign test's interval: all but the outermost few on each side."""
    ordered = sorted(changes)
    out = _left_out(len(ordered))
    return ordered[out], ordered[len(ordered) - 1 - out]


def _wider(low: float, high: float, share: float) -> tuple[float, float]:
    by = 1 + share
    return min(low / by, low * by), max(high / by, high * by)


def _of_the_median_pair(values: Sequence[float], changes: Sequence[float]) -> float:
    """One side of the pair that has the median change, or of the two: it fits to the ratio.

    The medians of both sides may be of different minutes, in which the machine was not as fast.
    """
    ordered = [value for _, value in sorted(zip(changes, values, strict=True))]
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return math.sqrt(low * high) if low > 0 and high > 0 else (low + high) / 2


@lru_cache
def _left_out(pairs: int) -> int:
    """How many changes may lie beyond each end while the error stays within its share of 5 %."""
    out, tail = 0, 1 + pairs  # of 2**pairs equally likely signs, those with at most one plus
    while 2 * tail <= LATER_ERROR * 2**pairs:
        out += 1
        tail += math.comb(pairs, out + 1)
    return out


def _scaled(
    before: Sequence[float], after: Sequence[float]
) -> tuple[list[float], list[float], Callable[[float], float]]:
    """Both series on a scale where differences are changes, and the way back to a ratio.

    That is the logarithm, or, where a value is not positive, the share of A's usual size.
    """
    values = [*before, *after]
    if 0 < max(values) < WIDEST_RATIO * min(values):
        return [math.log(each) for each in before], [math.log(each) for each in after], math.exp
    size = median(map(abs, before)) or max(map(abs, values)) or 1.0
    return [each / size for each in before], [each / size for each in after], lambda x: 1 + x


def _outcome(
    ratio: float, low: float, high: float, noise: Noise, quality: Quality, strict: bool
) -> tuple[Outcome, str]:
    """The verdict on a ratio with its interval, and the reason."""
    least = noise.at_least(SMALLEST)
    one_sided = low > 1 or high < 1
    near, far = sorted((_size(low), _size(high)))
    beyond = ""
    if strict and min(_size(ratio) / least.largest, near / least.usual) <= 1:
        pass
    elif _size(ratio) > least.largest:
        beyond = f"more than {_what(noise.largest)}"
    elif near > least.usual:
        usual = "the usual " if noise.usual > SMALLEST else ""
        beyond = f"all of it more than {usual}{_what(noise.usual)}"
    if one_sided and beyond:
        improved = (ratio > 1) == quality.higher_is_better
        return "better" if improved else "worse", beyond
    if far <= min(least.largest, COARSEST):
        return "same", f"within {percent(min(least.largest, COARSEST))}"
    if one_sided:
        return "inconclusive", f"not more than {_what(noise.largest)}"
    return "inconclusive", f"no clear side, {_what(noise.largest)}"


def _size(ratio: float) -> float:
    """How far a ratio is from one: half as much is as far as twice as much."""
    return max(ratio, 1 / ratio) - 1 if ratio > 0 else 1 - ratio


def _what(noise: float) -> str:
    return f"noise {percent(noise)}" if noise > SMALLEST else percent(SMALLEST)
