"""Referee: hold the numbers of a run against those of the untouched script, as the guard has it.

The runs that others are held against are made when first needed: with the same seed once more, with
weights moved by a hair, with other seeds. Each of them takes as long as a trial.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from pitstop.compare.pairs import SMALLEST
from pitstop.compare.quantities import Quantity, Sample, step_ms
from pitstop.core.errors import PitstopError
from pitstop.core.trial import Verdict
from pitstop.core.units import count, precise_percent
from pitstop.tune.change import Change, Effect
from pitstop.tune.checked import Changes, Checked, label
from pitstop.tune.guard.readings import Readings
from pitstop.tune.guard.verdict import FLOORS, SEEDS, Guarded, Untouched, guard, other_batches
from pitstop.tune.plan import Plan
from pitstop.tune.runs.endings import WARNS
from pitstop.tune.runs.trials import TrialRun

SEED = 0
MOVES = (0, 1, 3)  # untouched runs with moved weights; more where one nearly allows the drift
# By so many units in those after the first. In another order the sums of a convolution in float32
# part by 3 to 7 units, and those of its gradients by up to 14. Coarser precisions sum up in that.
UNITS = {"float32": 8}
LONGEST_WARNING = 120
EFFECTS: tuple[Effect, ...] = ("exact", "rounding", "other-randomness", "changes-training")
Run = tuple[TrialRun, Sample]


@dataclass(frozen=True, slots=True)
class Which:
    """One of the runs that others are held against: untouched, or kept changes with other seeds."""

    kept: tuple[str, ...] = ()
    seed: int = SEED
    perturb: str = ""  # the precision in which its weights are moved
    number: int = 1  # of several that are alike, or in which they are moved


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of such a run."""

    readings: Readings
    sample: Sample


class Referee:
    """What becomes of runs by their numbers, and by metrics of the user's own."""

    def __init__(
        self,
        changes: Mapping[str, Change],
        precision: str,
        metrics: Sequence[Quantity],
        run: Callable[[Changes, Plan], Run],
    ) -> None:
        self._changes = changes
        self._precision = precision
        self._metrics = metrics
        self._run = run
        self._made_runs: dict[Which, Held] = {}
        self._warnings: set[str] = set()  # where the script warns of something, and numbers hold

    def held(self, changes: Changes, run: Run) -> Checked:
        """A run with changes, held against the untouched ones; over seeds, where that must be."""
        if not self._made_runs and self._metrics:
            self._check_metrics(self._made(Which()).sample)
        trial = run[0]
        guarded = self._guarded(changes, trial.readings, _drawn(trial))
        if guarded.needs_seeds:
            guarded = self._over_seeds(changes, trial.readings)
        return self._told(changes, guarded, run)

    def _over_seeds(self, changes: Changes, run: Readings) -> Guarded:
        """The verdict on numbers that one run left open."""
        seeds = range(SEED + 1, SEED + SEEDS)
        ours = [self._readings(each, kept=changes) for each in seeds]
        theirs = tuple(self._readings(each) for each in seeds)
        untouched = Untouched(self._readings(SEED), other_seeds=theirs)
        _, precision = self._effect(changes)
        return guard("other-randomness", run, untouched, precision, ours)

    def _effect(self, changes: Changes, drawn: Set[str] = frozenset()) -> tuple[set[Effect], str]:
        """What all changes together do to the numbers, and the coarsest precision in the run.

        ``drawn`` are those that turned out to bring other randomness.
        """
        chosen = [self._changes[wanted.name] for wanted in changes]
        known = (self._precision, *(each.precision for each in chosen))
        precision = max(known, key=lambda name: FLOORS.get(name, 0.0))
        effects = {each.effect for each in chosen}
        if any(each.name in drawn for each in chosen):
            effects.add("other-randomness")
        return effects, precision

    def _guarded(self, changes: Changes, run: Readings, drawn: Set[str]) -> Guarded:
        """Hold the run against the untouched ones; other randomness only where that is needed."""
        effects, precision = self._effect(changes, drawn)
        null = self._readings(SEED)
        drawn_anew = "other-randomness" in effects and other_batches(run, null)
        moves = (0,) if drawn_anew else MOVES  # what rounding does to others tells nothing
        found = self._judged(_loosest(effects), run, precision, moves)
        if found.ok or "other-randomness" not in effects:
            return found
        untouched = Untouched(null) if drawn_anew else self.reference(precision)
        return guard("other-randomness", run, untouched, precision)

    def _told(self, changes: Changes, guarded: Guarded, run: Run) -> Checked:
        """What becomes of a run by its numbers, and by metrics of the user's own."""
        trial, seen = run
        _, precision = self._effect(changes, _drawn(trial))
        worse = self._worse(seen, precision) if guarded.ok else ""
        refused: Verdict | None = None if guarded.ok and not worse else "drifted"
        note = f"{worse or guarded.reason}{self._new_warning(trial)}" if refused else ""
        drift, tolerance = guarded.drift, guarded.tolerance
        said = note or guarded.reason
        where = (guarded.quantity, guarded.step) if refused and not worse else ("", None)
        step = step_ms(seen.evidence)
        return Checked(refused, said, step, trial.peak_bytes, drift, tolerance, *where)

    def _new_warning(self, run: TrialRun) -> str:
        """What the script warns of in this run and not untouched: it may have fallen back."""
        new = (each for each in run.ending.warnings if _place(each) not in self._warnings)
        return next((f"; {each[:LONGEST_WARNING]}" for each in new), "")

    def _judged(
        self,
        effect: Effect,
        run: Readings,
        precision: str,
        moves: Sequence[int] = MOVES,
    ) -> Guarded:
        """Held against as few untouched runs as will do: each more may allow more."""
        found = guard(effect, run, Untouched(self._readings(SEED)), precision)
        for number in (0,) if effect == "exact" else moves:
            settled = found.ok or found.drift is None  # what has no drift is wrong by any measure
            if settled or (number == MOVES[-1] and not found.nearly):
                break
            found = guard(effect, run, self.reference(precision, number), precision)
        return found

    def untouched(self) -> Readings:
        """The numbers of the untouched script."""
        return self._readings(SEED)

    def reference(self, precision: str, moves: int = 1) -> Untouched:
        """The untouched runs: one, the same again, and some moved by a hair in that precision."""
        null, again = (self._readings(SEED, number=each) for each in (1, 2))
        moved = (self._readings(SEED, precision, each) for each in range(1, moves + 1))
        return Untouched(null, (again,), tuple(moved))

    def _readings(
        self, seed: int, perturb: str = "", number: int = 1, kept: Changes = ()
    ) -> Readings:
        """Those of a run that others are held against."""
        return self._made(Which(tuple(map(label, kept)), seed, perturb, number), kept).readings

    def _made(self, which: Which, kept: Changes = ()) -> Held:
        """A run that others are held against, which is made when first needed."""
        if which not in self._made_runs:
            units = UNITS.get(which.perturb, 1) if which.number > 1 else 1
            moved = which.perturb or None
            plan = Plan(kept, which.seed, moved, which.number, units, outputs=True)
            trial, seen = self._run(kept, plan)
            self._made_runs[which] = Held(trial.readings, seen)
            if not (kept or which.seed):
                self._warnings |= set(map(_place, trial.ending.warnings))
        return self._made_runs[which]

    # Metrics of the user's own

    def _check_metrics(self, seen: Sample) -> None:
        for each in self._metrics:
            if each.read(seen) is None:
                raise PitstopError(
                    f"no number for {each.quality.name} was printed in "
                    f"{count(len(seen.evidence.steps), 'step')}: check the pattern, or give "
                    "more --steps"
                )

    def _worse(self, seen: Sample, precision: str) -> str:
        """The first metric that is worse than in any untouched run, and by how much."""
        if self._metrics:
            self.reference(precision)  # two runs, and one of rounding: metrics are as noisy
        for each in self._metrics:
            untouched = [held.sample for which, held in self._made_runs.items() if not which.kept]
            read = [each.read(other) for other in untouched]
            plain = [number for number in read if number is not None]
            ours = each.read(seen)
            if ours is None:
                return f"printed no {each.quality.name}"
            worst = min(plain) if each.quality.higher_is_better else max(plain)
            apart = (ours - worst) / (abs(worst) or 1.0)
            if (-apart if each.quality.higher_is_better else apart) > SMALLEST:
                name = each.quality.name
                return f"{name} {ours:.4g} instead of {worst:.4g}, {precise_percent(apart)}"
        return ""


def _drawn(run: TrialRun) -> set[str]:
    """The changes that turned out to bring other randomness to this script."""
    return {each.name for each in run.outcomes if each.effect == "other-randomness"}


def _loosest(effects: set[Effect]) -> Effect:
    """What numbers may do that come from the same random numbers."""
    usual: list[Effect] = [each for each in effects if each != "other-randomness"]
    return max(usual, key=EFFECTS.index, default="rounding")


def _place(warning: str) -> str:
    """Where it comes from: what it says may have numbers in it that differ from run to run."""
    return warning.partition(WARNS)[0]
