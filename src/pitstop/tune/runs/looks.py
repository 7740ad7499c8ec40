"""Looks: whether pairs of times without and with a change have told enough."""

from pitstop.compare import pairs
from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.core.comparison import Comparison


def tell_enough(times: Pairs[float]) -> bool:
    """Whether this is a time to look at pairs of blocks, and that settles it.

    More of them cost little, so only what seems no faster after a second look is given up.
    """
    number = len(times.before)
    if number not in LOOKS:
        return False
    ratio = compared(times).ratio
    slower = number > LOOKS[0] and ratio is not None and ratio >= 1
    return slower or clear(times)


def compared(times: Pairs[float]) -> Comparison:
    """The step time with a change against that without."""
    return pairs.verdict(times.before, times.after, pairs.noise(times.before, times.after))


def clear(times: Pairs[float]) -> bool:
    """Whether more pairs would not change what becomes of it."""
    step = compared(times)
    return step.verdict != "inconclusive" or cannot_help(step)


def cannot_help(step: Comparison) -> bool:
    """Whether even the better end of the interval is no gain worth having."""
    return step.low is not None and step.low > 1 - pairs.SMALLEST
