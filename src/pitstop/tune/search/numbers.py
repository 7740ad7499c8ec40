"""Numbers: whether those of some changes are still those of the untouched script."""

from collections.abc import Mapping
from dataclasses import replace

from pitstop.tune.bench.bench import Bench, Kind
from pitstop.tune.change import Change, Effect
from pitstop.tune.checked import Changes
from pitstop.tune.guard.twins import Twins, judge_drawn, judge_exact, judge_rounding
from pitstop.tune.guard.verdict import FLOORS, Guarded

FEW = 3  # twins: what is wrong shows in any of them, and noise averages out
MANY = 6  # twins, where random numbers fall elsewhere: the fewest that have a spread
STILL = 1e-3  # of all gradients: one that is less may be rounding alone
ROUNDS = 4  # roundings of the precision at hand, likewise
# In another order the sums of a convolution in float32 part by 3 to 7 units, and those of its
# gradients by up to 14. Coarser precisions sum up in that.
UNITS = {"float32": 8}


class Numbers:
    """Asks a bench for twins, and for those that others are held against once only."""

    def __init__(self, bench: Bench, changes: Mapping[str, Change], precision: str) -> None:
        self._bench = bench
        self._changes = changes
        self._precision = precision  # what the script computes in by itself, at its coarsest
        self._moved: dict[str, Twins] = {}
        self._drawn: dict[str, Twins] = {}
        self.null = Twins()

    def begin(self) -> str:
        """The untouched script against itself, in words."""
        self.null = self._bench.twins((), FEW, Kind())
        if self.repeats:
            return "equal to the last bit in twin steps"
        return judge_rounding(self.null, (self.null,), self._precision).reason

    @property
    def repeats(self) -> bool:
        """Whether the untouched script gives the same numbers to the last bit."""
        return not any(self.null.worst.values())

    def of(self, on: Changes, number: int = FEW) -> Guarded:
        """Whether they hold with these changes, in so many twins."""
        effects, precision = self._effects(on)
        plain = Kind(still=max(STILL, ROUNDS * FLOORS.get(precision, 0.0)))
        ours = self._bench.twins(on, number, plain)
        if "changes-training" in effects:
            return Guarded(True, reason="changes what is learned: held against nothing")
        drawn = "other-randomness" in effects or self._bench.draws_otherwise(on)
        if effects <= {"exact"} and not drawn:
            found = judge_exact(ours, self.null)
            if found.ok or self.repeats:
                return found
        references = self.null, self._reference(precision, plain)
        found = judge_rounding(ours, references, precision)
        if found.ok or not drawn:
            return found
        ours = self._bench.twins(on, MANY, replace(plain, draws="same"))
        if precision not in self._drawn:
            others = replace(plain, draws="others")
            self._drawn[precision] = self._bench.twins((), MANY, others)
        itself = self._bench.twins(on, FEW, replace(plain, draws="others", itself=True))
        return judge_drawn(ours, itself, self._drawn[precision], references, precision)

    def _effects(self, on: Changes) -> tuple[set[Effect], str]:
        """What all of them do to the numbers, and the coarsest precision in the run."""
        chosen = [self._changes[each.name] for each in on]
        known = (self._precision, *(each.precision for each in chosen))
        coarsest = max(known, key=lambda name: FLOORS.get(name, 0.0))
        return {each.effect for each in chosen}, coarsest

    def _reference(self, precision: str, plain: Kind) -> Twins:
        if precision not in self._moved:
            moved = replace(plain, moved=precision, units=UNITS.get(precision, 1))
            self._moved[precision] = self._bench.twins((), FEW, moved)
        return self._moved[precision]
