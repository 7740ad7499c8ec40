"""Looks: whether pairs of times without and with a change have told enough.

The process of the script looks at its own blocks of steps, so this needs nothing but Python.
"""

from collections.abc import Sequence

from pitstop.compare import pairs
from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.core.comparison import Comparison
from pitstop.tune.plan import Block

# Pairs of fresh runs, and the share of the noise that a gain must have by then. In simulations with
# normal, heavy, drifting and spiky noise this gives up at most 2 in 100 changes that help and would
# have been kept; of those that do not it gives up half after 6 pairs, and most others after 12.
HOPE = {6: 0.0, 12: 0.25}
# Pairs of fresh runs after which what was never faster is given up. In the same simulations that
# costs some 6 in 100 changes at worst that help and would have been kept, mostly gains of 2 %; with
# noise of 1 % or less it spares half or more of those that do not help eight runs.
EARLIEST = 2


def pairs_of(blocks: Sequence[Block]) -> Pairs[float]:
    """Milliseconds of a step, of the blocks off and on; the last may lack its partner."""
    number = len(blocks) // 2
    off, on = ([each.ms for each in blocks if each.on is state] for state in (False, True))
    return Pairs(tuple(off[:number]), tuple(on[:number]))


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


def clear_or_hopeless(times: Pairs[float]) -> bool:
    """Whether it is clear, or so far from a gain that more pairs would hardly show one."""
    if len(times.before) == EARLIEST:
        both = zip(times.before, times.after, strict=True)
        return all(after > (1 - pairs.SMALLEST) * before for before, after in both)
    step, share = compared(times), HOPE.get(len(times.before))
    if share is None or step.ratio is None:
        return clear(times)
    noise = pairs.noise(times.before, times.after).largest
    return clear(times) or 1 - step.ratio < share * noise


def cannot_help(step: Comparison) -> bool:
    """Whether even the better end of the interval is no gain worth having."""
    return step.low is not None and step.low > 1 - pairs.SMALLEST
