"""Parted: where two runs with one seed compute something else first: a gradient, a module.

Both begin with the same weights and the same batch. So the gradients of their first step may differ
by rounding only. They tell what losses hide: with a small learning rate a lost gradient hardly
moves a loss.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pitstop.core.comparison import Parted
from pitstop.core.units import precise_percent
from pitstop.tune.guard.readings import Early, Readings
from pitstop.tune.guard.twins import BIASED_ALL, BIASED_COARSE, NOISY, NOISY_COARSE, TIMES
from pitstop.tune.search.numbers import STILL

HALF = "float16"  # its gradients may still be scaled, by a number of the scaler's own
OTHER_OUTPUT = 1e-3  # of what a module returns: rounding in float32 stays far below it
SHARED = 0.5  # of the gradients: where fewer have the same name, modules were renamed


@dataclass(frozen=True, slots=True)
class _Gap:
    """How far a tensor is from that of the base, as a share of it."""

    name: str
    length: float  # of that of the base
    off: float


def gradients_parted(
    run: Readings, base: Readings, others: Sequence[Readings], precision: str
) -> Parted | None:
    """The gradient of the first step that is another one, if any; ``others`` set the measure."""
    if precision == HALF:
        return None
    gaps = list(_gaps(run.early, base.early, "gradient", 0))
    known = {each.name for each in base.early if each.kind == "gradient" and not each.step}
    if not gaps or len(gaps) < SHARED * len(known):
        return None
    moved = [list(_gaps(each.early, base.early, "gradient", 0)) for each in others]
    worst = max(gaps, key=lambda each: each.off * each.length)
    allowed = max(
        BIASED_ALL.get(precision, BIASED_COARSE), TIMES * max(map(_whole, moved), default=0)
    )
    if (off := _whole(gaps)) > allowed:
        return _gradient(worst.name, off, allowed, "the gradients of step 1 are {} off")
    most = {each.name: 0.0 for each in gaps}
    for each in (gap for one in moved for gap in one):
        most[each.name] = max(most.get(each.name, 0.0), each.off)
    whole = math.hypot(*(each.length for each in gaps))
    for gap in gaps:
        allowed = max(NOISY.get(precision, NOISY_COARSE), TIMES * most[gap.name])
        if gap.off > allowed and gap.length > STILL * whole:
            said = f"the gradient of {gap.name} is {{}} off in step 1"
            return _gradient(gap.name, gap.off, allowed, said)
    return None


def first_module(run: Readings, base: Readings, others: Sequence[Readings], step: int) -> str:
    """The first module that returns something else in a step, from 0; empty: none is known."""
    most: dict[str, float] = {}
    for each in (gap for one in others for gap in _gaps(one.early, base.early, "module", step)):
        most[each.name] = max(most.get(each.name, 0.0), each.off)
    for gap in _gaps(run.early, base.early, "module", step):
        if gap.off > max(OTHER_OUTPUT, TIMES * most.get(gap.name, 0.0)):
            return gap.name.split(" ")[0]
    return ""


def _gradient(name: str, off: float, allowed: float, said: str) -> Parted:
    words = f"{said.format(precise_percent(off))}, {precise_percent(allowed)} allowed"
    return Parted(words, "gradient", 1, name, off, allowed)


def _whole(gaps: Sequence[_Gap]) -> float:
    """How far all of them together are off."""
    whole = math.hypot(*(each.length for each in gaps))
    return math.hypot(*(each.off * each.length for each in gaps)) / whole if whole else 0.0


def _gaps(ours: Sequence[Early], base: Sequence[Early], kind: str, step: int) -> Iterator[_Gap]:
    """Each tensor that both have, in the order of ours."""
    known = _first(base, kind, step)
    for name, each in _first(ours, kind, step).items():
        if there := known.get(name):
            yield _Gap(name, there.length, _off(each, there))


def _first(early: Sequence[Early], kind: str, step: int) -> dict[str, Early]:
    """By name, the first of a step."""
    found: dict[str, Early] = {}
    for each in early:
        if each.kind == kind and each.step == step:
            found.setdefault(each.name, each)
    return found


def _off(ours: Early, base: Early) -> float:
    """By length or by direction, whatever is farther off."""
    if len(ours.values) != len(base.values) or not math.isfinite(base.length):
        return 0.0 if not math.isfinite(base.length) else 1.0
    apart = math.hypot(*(a - b for a, b in zip(ours.values, base.values, strict=True)))
    longer = abs(ours.length - base.length)
    return max(_share(apart, math.hypot(*base.values)), _share(longer, base.length))


def _share(part: float, whole: float) -> float:
    """Of nothing it is all of it where there is something now."""
    found = part / whole if whole else float(part > 0)
    return found if math.isfinite(found) else 1.0
