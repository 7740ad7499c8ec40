"""Twins: whether the numbers of steps that happened twice, off and on, are still the same.

**Exact** is what it says wherever the script repeats itself: equal to the last bit.

**Rounding** is measured: in other twins the weights of the second pass are moved by a unit of the
coarsest precision in force. Three times as far may a loss be, and one rounding in any case. The way
of a parameter, its gradient and a buffer have two parts. Along the first pass the second must be as
long: what is wrong, such as another learning rate, a gradient that is missing or a buffer that
stands still, shows there, and rounding averages out over twins. What points elsewhere is noise, and
may be large in a single parameter where products round to few bits. A parameter whose way is mere
rounding, as that of a bias before a BatchNorm, tells nothing. Two numbers of all parameters
together tell what is wrong everywhere, such as a rate 3 % off, or no decay.

**Other random numbers** are measured by twins whose second pass draws others. The losses of both
sides must have the same mean, as far as their spread can tell, and a spread.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from pitstop.core.units import precise_percent
from pitstop.tune.bench.questions import Answer
from pitstop.tune.guard.verdict import FLOORS, Guarded

BIAS = "bias"  # as the bench names it

TIMES = 3.0  # of what moved weights change: one direction to move them is good to a factor of two
NOISE = 0.3  # of a parameter's way: where moved weights change so much, it is rounding itself
MOST = 0.3  # a number that is a third off is another one
SPREADS = 3.0  # of the mean of the losses that random numbers give: once in 300 by chance
VANISHED = 0.25  # of the spread: what draws less is no longer the same randomness
OF_ALL = f"{BIAS} of all"
LEAST = {  # shares that tell nothing, in float32; coarser precisions allow more
    "loss": 1e-5,
    "output": 1e-5,
    "size": 1e-5,  # of an output: rounding averages out in it
    "along": 1e-5,
}
BIASED = 0.1  # of one parameter: along the first pass it must be as long but for this
BIASED_ALL = {"float32": 2e-3}  # of all parameters together; where products round to few bits
BIASED_COARSE = 1e-2
# What points elsewhere in one parameter: sums of convolutions cancel, and their terms round.
NOISY = {"float32": 0.1, "tfloat32": 0.5}
NOISY_COARSE = 1.0


@dataclass(frozen=True, slots=True)
class Twins:
    """Some twins of one kind."""

    answers: tuple[Answer, ...] = ()

    @property
    def worst(self) -> dict[str, float]:
        """The largest distance of each quantity; of biases the mean, since noise averages out."""
        found: dict[str, float] = {}
        biases: dict[str, list[float]] = {}
        for each in self.answers:
            for name, distance in each.distances.items():
                if name.startswith(BIAS):
                    biases.setdefault(name, []).append(distance)
                else:
                    found[name] = max(found.get(name, 0.0), distance)
        return found | {name: abs(fmean(each)) for name, each in biases.items()}

    @property
    def wrong(self) -> str:
        """What is plainly different in any of them."""
        return next((each.wrong for each in self.answers if each.wrong), "")

    @property
    def furthest_loss(self) -> float:
        """The largest distance of any loss."""
        return max((far for name, far in self.worst.items() if name.startswith("loss")), default=0)

    @property
    def losses(self) -> tuple[list[float], list[float]]:
        """The mean loss of each pass, twin by twin."""
        both = [each.losses for each in self.answers if all(each.losses)]
        return [fmean(off) for off, _ in both], [fmean(on) for _, on in both]


def judge_exact(ours: Twins, null: Twins) -> Guarded:
    """Bit by bit, where the untouched script repeats itself so."""
    if ours.wrong:
        return Guarded(False, reason=ours.wrong)
    return _within(ours.worst, {name: TIMES * each for name, each in null.worst.items()})


def judge_rounding(ours: Twins, references: Iterable[Twins], precision: str) -> Guarded:
    """As far off as moved weights, or the script itself, may bring it."""
    if ours.wrong:
        return Guarded(False, reason=ours.wrong)
    moved: dict[str, float] = {}
    for each in references:
        moved = {
            name: max(moved.get(name, 0.0), each.worst.get(name, 0.0))
            for name in (*moved, *each.worst)
        }
    told = {name: far for name, far in ours.worst.items() if _tells(name, moved, precision)}
    allowed = {
        name: max(_least(name, precision), min(TIMES * moved.get(name, 0.0), _most(name)))
        for name in told
    }
    return _within(told, allowed)


def judge_drawn(
    ours: Twins, itself: Twins, drawn: Twins, rounded: Sequence[Twins], precision: str
) -> Guarded:
    """Other random numbers: as far off as those bring it, with the same losses on average.

    ``itself`` are twins with the change in both passes, which draw different numbers.
    """
    strict = judge_rounding(ours, rounded, precision)
    if strict.ok or ours.wrong:
        return strict
    found = judge_rounding(ours, [drawn, *rounded], precision)
    off, on = ours.losses
    if not found.ok or len(off) < 2:
        return found
    least = FLOORS.get(precision, FLOORS["float32"])
    if drawn.furthest_loss > least and itself.furthest_loss < VANISHED * drawn.furthest_loss:
        return Guarded(False, reason="its losses no longer depend on random numbers")
    size = max(map(abs, (*off, *on))) or 1.0
    differ = [(b - a) / size for a, b in zip(off, on, strict=True)]
    apart = abs(fmean(differ))
    allowed = max(least, SPREADS * pstdev(differ) / math.sqrt(len(differ) - 1))
    said = f"mean loss {precise_percent(apart)} apart, {_by(allowed)}"
    return Guarded(apart <= allowed, apart, allowed, said)


def _within(ours: Mapping[str, float], allowed: Mapping[str, float]) -> Guarded:
    """The quantity that is farthest beyond what is allowed, or the farthest loss or output."""
    if not ours:
        return Guarded(False, reason="nothing in its steps can be compared")
    beyond = {name: far for name, far in ours.items() if not far <= allowed.get(name, 0.0)}
    if beyond:
        name = max(beyond, key=lambda each: beyond[each] / (allowed.get(each, 0.0) or 1e-30))
        far, most = ours[name], allowed.get(name, 0.0)
        said = f"{_words(name)} is {precise_percent(far)} off, {_by(most)}"
        return Guarded(False, far, most, said)
    main = [name for name in ours if name.startswith(("loss", "output"))] or [*ours]
    name = max(main, key=lambda each: ours[each])
    far, most = ours[name], allowed.get(name, 0.0)
    said = f"{_words(name)} at most {precise_percent(far)} off, {_by(most)}"
    return Guarded(True, far, most, said if far else "equal to the last bit in twin steps")


def _tells(name: str, moved: Mapping[str, float], precision: str) -> bool:
    """Whether a quantity says anything where numbers round."""
    what = name.removeprefix(f"{BIAS} ")
    kind = what.partition(" ")[0]
    if kind == "weight" or (kind == "gradient" and precision == "float16"):
        return False  # the way tells it; gradients may still be scaled
    if kind in LEAST or "along" in name or name == OF_ALL:
        return True
    return moved.get(what, 0.0) < NOISE


def _least(name: str, precision: str) -> float:
    floor = FLOORS.get(precision, FLOORS["float32"])
    if name == OF_ALL:
        return BIASED_ALL.get(precision, BIASED_COARSE)
    if name.startswith(BIAS):
        return BIASED
    kind = "along" if name == "way along the weights" else name.partition(" ")[0]
    if kind not in LEAST:
        return NOISY.get(precision, NOISY_COARSE)
    return max(LEAST[kind], floor if floor > FLOORS["float32"] else 0.0)


def _most(name: str) -> float:
    """What no reference allows; of one parameter a reference that moves so much tells nothing."""
    return (
        MOST if name.partition(" ")[0] in LEAST or "along" in name or name == OF_ALL else math.inf
    )


def _words(name: str) -> str:
    """A quantity as people say it."""
    if name == OF_ALL:
        return "the length of what the optimizers do"
    if name == "way along the weights":
        return "the decay of the weights"
    length = "the length of " if name.startswith(BIAS) else ""
    kind, _, which = name.removeprefix(f"{BIAS} ").partition(" ")
    if kind in {"loss", "output"}:
        return f"{kind} {int(which) + 1}"
    known = {
        "way": "the way of a parameter",
        "weight": "a parameter",
        "gradient": "a gradient",
        "buffer": f"the change of the buffers {which}",
        "size": "the size of an output",
    }
    return f"{length}{known.get(kind, f'{kind} of the optimizer')}"


def _by(allowed: float) -> str:
    return f"{precise_percent(allowed)} allowed" if allowed else "none allowed"
