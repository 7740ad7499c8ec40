"""Numbers: whether the edit computes what the base computes, but for rounding.

Fresh processes with one seed are held against each other as ``tune`` holds its changes: each loss,
gradient norm and output, step by step, against what weights moved by a hair do to the base. On top
of that come the gradients of the first step, parameter by parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pitstop.compare.quantities import Quantity
from pitstop.core.comparison import Parted
from pitstop.core.units import count
from pitstop.prove.parted import first_module, gradients_parted
from pitstop.prove.sides import AS_A_CHANGE, EDIT, Sides
from pitstop.tune.guard.readings import Readings
from pitstop.tune.guard.referee import SEED, Referee
from pitstop.tune.plan import LEARNING_STEPS, Plan


@dataclass(frozen=True, slots=True)
class Numbers:
    """What was found: where the two part, or in which way they hold."""

    parted: Parted | None = None
    holds: str = ""


def compare_numbers(sides: Sides, metrics: Sequence[Quantity], precision: str) -> Numbers:
    """Run both with one seed, and the base as often as it takes to know what rounding does."""
    referee = Referee({EDIT[0].name: AS_A_CHANGE}, precision, metrics, sides.run)
    base = referee.untouched()
    run = sides.run(EDIT, Plan(seed=SEED, outputs=True))
    ours = run[0].readings
    checked = referee.held(EDIT, run)
    if checked.refused:
        said = f"{checked.note}{_batches(ours, base)}"
        parted = Parted(said, checked.quantity, checked.step, "", checked.drift, checked.tolerance)
        return Numbers(_placed(parted, referee, ours, base, precision))
    if len(ours.losses) != len(base.losses):
        steps = f"it ends after {count(len(ours.losses), 'step')} instead of {len(base.losses)}"
        return Numbers(Parted(steps, step=min(len(ours.losses), len(base.losses)) + 1))
    if gradients_parted(ours, base, (), precision):
        others = _others(referee, precision)
        if parted_now := gradients_parted(ours, base, others, precision):
            return Numbers(parted_now)
    return Numbers(holds=checked.note)


def _placed(
    parted: Parted, referee: Referee, ours: Readings, base: Readings, precision: str
) -> Parted:
    """With the module in which it begins, where the first steps tell."""
    last = min(parted.step or LEARNING_STEPS, LEARNING_STEPS)
    others = _others(referee, precision)
    if gradient := gradients_parted(ours, base, others, precision):
        modules = [first_module(ours, base, others, 0), gradient.module]
    else:
        modules = [first_module(ours, base, others, step) for step in range(last)]
    return replace(parted, module=next(filter(None, modules), ""))


def _others(referee: Referee, precision: str) -> tuple[Readings, ...]:
    """The base with the same seed once more, and with its weights moved by a hair."""
    untouched = referee.reference(precision)
    return (*untouched.again, *untouched.perturbed)


def _batches(ours: Readings, base: Readings) -> str:
    """From which batch on the two work on other data, as the likely cause."""
    pairs = enumerate(zip(ours.batches, base.batches, strict=False), 1)
    first = next((number for number, (a, b) in pairs if a != b), None)
    return f"; batch {first} is another one" if first else ""
