"""Drift: how far the numbers of two runs part, and what is plainly wrong with one of them."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from statistics import median

from pitstop.core.units import count
from pitstop.tune.guard.readings import Output, Readings

HALF_LIMIT = 65504.0  # of float16
LARGE = 1e30  # such values come from masks: beside their squares nothing counts
SMALL = 0.1  # of the usual loss: what is smaller is held against this, since zero has no percent

FEWER_CALLS = 0.95  # of models: those of an adaptive solver depend on the last digit
FEWER_LINES = 0.5  # some are printed by the clock, and so depend on how fast the script is

Numbers = Sequence[float | None]  # one for each step


def apart(ours: Numbers, null: Numbers) -> list[float]:
    """Relative difference of each step; nothing where the two have no step in common."""
    both = list(zip(ours, null, strict=False))
    if all(a is None or b is None for a, b in both):
        return []
    usual = median(abs(each) for each in null if each is not None)
    return [0.0 if a is None or b is None else _relative(a, b, SMALL * usual) for a, b in both]


def series(readings: Readings) -> list[Numbers]:
    """The last losses of all steps, those before them, and so on; steps may have fewer."""
    return [readings.losses, *zip_longest(*readings.earlier_losses)]


def earlier_apart(run: Readings, null: Readings) -> list[float]:
    """Likewise, of the losses before the last of each step: the one farthest off."""
    return _farthest(series(run)[1:], series(null)[1:])


def learning_apart(run: Readings, null: Readings) -> list[float]:
    """Likewise, of what the optimizers do."""
    return _farthest(_columns(run), _columns(null))


def stopped(runs: Sequence[Readings], nulls: Sequence[Readings]) -> str:
    """What learns in each untouched run and in none of these, seed by seed; empty: nothing."""
    ours, theirs = ([_stepping(each) for each in of] for of in (runs, nulls))
    if still := set.intersection(*map(set, theirs)) - set().union(*ours):
        return f"optimizer {min(still) + 1} takes no step"
    idle = frozenset.intersection(*(each.idle for each in runs))
    learns = frozenset.intersection(*(each.learns for each in nulls))
    if ours == theirs and (lost := idle & learns):
        number, many = Counter(number for number, _ in lost).most_common(1)[0]
        return f"optimizer {number + 1} no longer moves {many} of its parameters"
    return ""


def less_done(run: Readings, null: Readings) -> str:
    """What the script no longer does, as where it catches what fails and goes on; or nothing."""
    if run.calls is not None and run.calls < FEWER_CALLS * (null.calls or 0):
        return f"its models are called {count(run.calls, 'time')} instead of {null.calls}"
    if run.lines is not None and run.lines < FEWER_LINES * (null.lines or 0):
        return f"it says {count(run.lines, 'line')} instead of {null.lines}"
    return ""


def _stepping(readings: Readings) -> dict[int, list[int]]:
    """The steps in which each optimizer steps, of those that do."""
    columns = enumerate(_columns(readings)[::2])
    found = {x: [step for step, each in enumerate(of) if each is not None] for x, of in columns}
    return {number: steps for number, steps in found.items() if steps}


def _columns(readings: Readings) -> list[Numbers]:
    """By optimizer, its gradients and its way."""
    return list(zip(*readings.learning, strict=True))


def _farthest(ours: list[Numbers], null: list[Numbers]) -> list[float]:
    drifts = [apart(*both) for both in zip(ours, null, strict=False)]
    return [max(each) for each in zip_longest(*filter(None, drifts), fillvalue=0.0)]


def _relative(a: float, b: float, smallest: float) -> float:
    return abs(a - b) / (max(abs(a), abs(b), smallest) or 1.0)


def outputs_apart(run: Readings, null: Readings) -> list[float]:
    """Relative error of each output, as a root mean square; of a run with losses those tell."""
    if null.known_losses:
        return []
    return [_error(a, b) for a, b in zip(run.outputs, null.outputs, strict=False)]


def _error(ours: Output, null: Output) -> float:
    power = math.fsum(b * b for b in null.values if not _mask(b))
    error = _squares(ours, null)
    return math.sqrt(error / power) if power else math.sqrt(error)


def _squares(ours: Output, null: Output) -> float:
    pairs = zip(ours.values, null.values, strict=False)
    return math.fsum((a - b) ** 2 for a, b in pairs if not _mask(a) and not _mask(b))


def _mask(value: float) -> str:
    """What is a mark rather than a number, such as the -inf of a mask; else empty."""
    if math.isnan(value):
        return "nan"
    marks = not math.isfinite(value) or abs(value) == HALF_LIMIT or abs(value) > LARGE
    return ("+" if value > 0 else "-") if marks else ""


def quality(run: Readings, null: Readings) -> str:
    """The worst PSNR of outputs that are images."""
    if null.known_losses:
        return ""
    found = []
    for ours, theirs in zip(run.outputs, null.outputs, strict=False):
        squares = _squares(ours, theirs)
        if theirs.is_image and squares:
            extent = max(theirs.values) - min(theirs.values)
            found.append(10 * math.log10(extent**2 * len(theirs.values) / squares))
    return f", PSNR {min(found):.1f} dB" if found else ""


def other_shapes(run: Readings, null: Readings) -> str:
    """How the outputs differ before the size of any number counts; empty: they do not."""
    if null.known_losses:
        return ""
    if len(run.outputs) < len(null.outputs):
        return f"{len(run.outputs)} outputs instead of {len(null.outputs)}"
    for number, (ours, theirs) in enumerate(zip(run.outputs, null.outputs, strict=False), 1):
        if ours.shape != theirs.shape:
            return f"output {number} has the shape {list(ours.shape)}, not {list(theirs.shape)}"
        if any(_mask(a) != _mask(b) for a, b in zip(ours.values, theirs.values, strict=False)):
            return f"output {number} is not finite, or masked, in other places"
    return ""


def newly_broken(run: Readings, null: Readings) -> str:
    """What is not finite, and was in the untouched run; empty: nothing."""
    if broken := sorted({*run.broken} - {*null.broken}):
        return f"the loss of step {broken[0]} is not finite"
    for number, (ours, theirs) in enumerate(zip(run.outputs, null.outputs, strict=False), 1):
        if not _finite(ours) and _finite(theirs):
            return f"output {number} of {ours.module} is not finite"
    return ""


def _finite(output: Output) -> bool:
    return all(map(math.isfinite, output.values))
