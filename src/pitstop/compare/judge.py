"""Judge: every quantity of two series of runs, or of two recordings cut into blocks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from pitstop.compare import pairs
from pitstop.compare.drift import loss_drift
from pitstop.compare.quantities import WAIT, Quantity, Sample, built_in, work_ms
from pitstop.core.comparison import Comparison
from pitstop.core.units import count

BLOCKS = ((12, 60), (6, 12))  # blocks, and the steps from which on: neighbours are alike
BETWEEN_RUNS = 0.05  # how far two runs of one script may differ; one run each cannot show it


def judge(
    before: Sequence[Sample],
    after: Sequence[Sample],
    own: Sequence[Quantity] = (),
    floor: float = 0.0,
    noun: str = "pair",
    strict: bool = False,
) -> tuple[Comparison, ...]:
    """Everything that can be read off both; ``floor`` is what further runs would differ by.

    ``strict`` is for who asks many times, and keeps each mistake.
    """
    found = [
        _one(quantity, before, after, floor, noun, strict)
        for quantity in (*built_in((*before, *after)), *own)
    ]
    return tuple(each for each in found if each)


def judge_runs(
    before: Sequence[Sample], after: Sequence[Sample], own: Sequence[Quantity] = ()
) -> tuple[Comparison, ...]:
    """Adjacent runs of A and B, with their losses."""
    drift = loss_drift([each.evidence for each in before], [each.evidence for each in after])
    return (*judge(before, after, own), *([drift] if drift else []))


def judge_recordings(
    before: Sample, after: Sample, own: Sequence[Quantity] = ()
) -> tuple[Comparison, ...]:
    """One run each. Steps are cut into blocks, since neighbouring steps know of each other."""
    steady = min(len(before.evidence.steady), len(after.evidence.steady))
    number = next((blocks for blocks, steps in BLOCKS if steady >= steps), 1)
    found = judge(_blocks(before, number), _blocks(after, number), own, BETWEEN_RUNS, "block")
    drift = loss_drift([before.evidence], [after.evidence])
    return (*found, *([drift] if drift else []))


def _one(
    quantity: Quantity,
    before: Sequence[Sample],
    after: Sequence[Sample],
    floor: float,
    noun: str,
    strict: bool,
) -> Comparison | None:
    quality = quantity.quality
    read = [quantity.read(each) for each in (*before, *after)]
    values = [each for each in read if each is not None]
    if not values and quality.unit:
        return None  # such as the memory of a GPU that is not there
    if len(values) < len(read):
        gone = f"no number in {count(len(read) - len(values), 'run')} of {len(read)}"
        return Comparison(quality.name, "inconclusive", reason=gone, unit=quality.unit)
    a, b = values[: len(before)], values[len(before) :]
    work = work_ms(before) if quality.name == WAIT else 0.0
    weighed_a, weighed_b = [work + each for each in a], [work + each for each in b]
    noise = pairs.noise(weighed_a, weighed_b).at_least(floor)
    found = pairs.verdict(weighed_a, weighed_b, noise, quality, noun, floor, strict)
    return replace(found, before=median(a), after=median(b)) if work else found


def _blocks(sample: Sample, number: int) -> list[Sample]:
    """The undisturbed steps in order, cut into so many blocks of nearly equal length."""
    steps = sample.evidence.steady
    cuts = [len(steps) * place // number for place in range(number + 1)]
    return [
        replace(sample, evidence=replace(sample.evidence, steps=steps[a:b], warmup_steps=0))
        for a, b in pairwise(cuts)
    ]
