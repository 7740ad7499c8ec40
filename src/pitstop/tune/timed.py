"""Timed: pairs of times without and with a change, from blocks of steps or from fresh processes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Sample, step_ms
from pitstop.tune.budget import Costs
from pitstop.tune.looks import tell_enough
from pitstop.tune.plan import Wanted
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
    costs: Costs,
    looks: Sequence[int],
    known: Pairs[float] = UNTIMED,
    switched: int = 1,
) -> Pairs[float]:
    """Pairs of blocks with the last changes off and on, until a look settles it.

    Fewer come back where the script ends before: how many more processes that would take was not
    planned.
    """
    even = len(known.before) // 2 * 2  # every other pair begins with the change on
    before, after = known.before[:even], known.after[:even]
    looked = 0
    while len(before) < looks[-1]:
        look = max((number for number in looks if number <= len(before)), default=0)
        if look > looked and tell_enough(Pairs(before[:look], after[:look])):
            return Pairs(before[:look], after[:look])
        looked = look
        asked = min(costs.pairs, looks[-1] - len(before))
        asked += asked % 2
        if not asked:
            break
        toggle = replace(costs.toggle, changes=switched, pairs=asked, looks=not before)
        new = track.blocks(changes, toggle)
        even = min(asked, len(new.before) // 2 * 2)
        before, after = (*before, *new.before[:even]), (*after, *new.after[:even])
        if even < asked and not tell_enough(Pairs(before, after)):
            break  # the script has ended
    return Pairs(before, after)
