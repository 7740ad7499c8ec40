"""Timed: pairs of times without and with a change, from blocks of steps or from fresh processes."""

from collections.abc import Callable, Sequence

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample, step_ms
from pitstop.tune.plan import Toggle, Wanted
from pitstop.tune.track import UNTIMED, Changes, RunError, Track

Settled = Callable[[Pairs[float]], bool]


def in_pairs(
    track: Track, wanted: Wanted, others: Changes, looks: Sequence[int], settled: Settled
) -> Pairs[float]:
    """Pairs of fresh runs without and with a change on top of others, until a look settles it."""
    batch = [0]

    def once(chosen: Changes) -> float:
        """The time for the work of one untouched step."""
        sample = track.sample(chosen)
        batch[0] = batch[0] or sample.batch or 0
        share = batch[0] / sample.batch if sample.batch else 1.0
        return share * mean_ms(sample)

    changes = (*others, wanted)
    found = pairs.measure(lambda: once(others), lambda: once(changes), settled, looks)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def mean_ms(sample: Sample) -> float:
    """The step of one run."""
    found = step_ms(sample.evidence)
    if found is None:
        raise RunError("failed", "it finished no step after its warm-up: give more --steps")
    return found


def in_blocks(
    track: Track,
    changes: Changes,
    toggle: Toggle,
    looks: Sequence[int],
    settled: Settled,
    known: Pairs[float] = UNTIMED,
    each: int = pairs.FEWEST,
) -> Pairs[float]:
    """Pairs of blocks with the last changes off and on, until a look settles it.

    A process gives so many as ``each``; fewer come back where the script ends before.
    """
    even = len(known.before) // 2 * 2  # every other pair begins with the change on
    found = Pairs(known.before[:even], known.after[:even])
    while len(found.before) < looks[-1]:
        if len(found.before) in looks and settled(found):
            break
        new = track.blocks(changes, toggle)
        most = next(look for look in looks if look > len(found.before))  # no look is passed over
        before = (*found.before, *new.before[:each])
        after = (*found.after, *new.after[:each])
        found = Pairs(before[:most], after[:most])
        if not each or len(new.before) < each:
            break
    return found
