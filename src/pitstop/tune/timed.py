"""Timed: pairs of times without and with a change, from blocks of steps or from fresh processes."""

from collections.abc import Callable, Sequence

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample, step_ms
from pitstop.tune.plan import Wanted
from pitstop.tune.track import Changes, RunError, Track

Settled = Callable[[Pairs[float]], bool]


def timed(
    track: Track,
    wanted: Wanted,
    others: Changes,
    toggles: bool,
    looks: Sequence[int],
    settled: Settled,
) -> Pairs[float]:
    """Pairs without and with a change on top of others, until a look settles it."""
    changes = (*others, wanted)
    if toggles:
        found = in_blocks(track, changes, looks, settled)
        if len(found.before) >= pairs.FEWEST:
            return found  # else the script is too short to be cut into blocks
    batch = [0]

    def once(chosen: Changes) -> float:
        """The time for the work of one untouched step."""
        sample = track.sample(chosen)
        batch[0] = batch[0] or sample.batch or 0
        share = batch[0] / sample.batch if sample.batch else 1.0
        return share * mean_ms(sample)

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
    track: Track, changes: Changes, looks: Sequence[int], settled: Settled, last: int = 1
) -> Pairs[float]:
    """Pairs of blocks with the last changes off and on, until a look settles it."""
    found: Pairs[float] = Pairs()
    for look in looks:
        new = track.blocks(changes, look - len(found.before), last)
        found = Pairs((*found.before, *new.before), (*found.after, *new.after))
        if len(found.before) < look or settled(found):
            break
    return found
