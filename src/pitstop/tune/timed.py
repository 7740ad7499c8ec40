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
) -> Pairs[float]:
    """Pairs of blocks with the last changes off and on, until a look settles it.

    There are fewer than the first look wants where the script is too short to be cut into blocks.
    """
    found = known if len(known.before) >= pairs.FEWEST else UNTIMED
    while len(found.before) < looks[-1]:
        if len(found.before) in looks and settled(found):
            break
        new = track.blocks(changes, toggle)
        found = Pairs((*found.before, *new.before), (*found.after, *new.after))
        if len(new.before) < pairs.FEWEST:
            break
    return found
