"""Processes: the track on which each run of the script is a fresh process."""

import math
import shutil
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from pitstop.compare.pairs import SMALLEST, Pairs
from pitstop.compare.quantities import Quantity, Sample, sample, step_ms
from pitstop.core.errors import PitstopError
from pitstop.core.trial import Verdict
from pitstop.core.units import count as count_of
from pitstop.core.units import minutes, percent, precise_percent
from pitstop.profile.options import UNKNOWN, StepEnds
from pitstop.tune import pace
from pitstop.tune.budget import WARMUP, Costs, toggled_steps
from pitstop.tune.change import Change, Effect
from pitstop.tune.endings import WARNS
from pitstop.tune.guard import FLOORS, SEEDS, Guarded, Untouched, guard
from pitstop.tune.looks import pairs_of
from pitstop.tune.plan import Block, Plan, Toggle, read_blocks
from pitstop.tune.readings import Readings
from pitstop.tune.track import LEAST_PATIENCE, Changes, Checked, Patience, RunError, forever, label
from pitstop.tune.trials import Settings, TrialRun, run_trial
from pitstop.tune.turns import clock

SEED = 0
PATIENCE_S = 300.0  # for compilers, beside ten times the usual, but not beyond the budget
SLOWEST = 10  # times as long as the untouched run: such a change is none, and may hang
MOVES = 3  # untouched runs with moved weights, where one alone nearly allows the drift
# By so many units in those after the first. In another order the sums of a convolution in float32
# part by 3 to 7 units, and those of its gradients by up to 14. Coarser precisions sum up in that.
UNITS = {"float32": 8}
LONGEST_WARNING = 120
EFFECTS: tuple[Effect, ...] = ("exact", "rounding", "other-randomness", "changes-training")


@dataclass(frozen=True, slots=True)
class Course:
    """What is run, and how."""

    words: tuple[str, ...]
    folder: Path  # for recordings, which do not outlive their run
    changes: Mapping[str, Change]  # all that may be wanted, by name
    costs: Costs
    ends_s: float  # when the budget is spent, by the clock
    metrics: tuple[Quantity, ...] = ()
    in_place: bool = False
    precision: str = "float32"  # what the script computes in by itself, at its coarsest
    step_ends: StepEnds = UNKNOWN
    compiled: Path | None = None  # what compilers made, for a search that is resumed


@dataclass(frozen=True)
class _Plain:
    """A run that others are held against: untouched, or with what was kept before them."""

    kept: Changes = ()
    seed: int = SEED
    perturb: str = ""
    number: int = 1

    def __hash__(self) -> int:  # options are a dictionary
        return hash((len(self.kept), self.seed, self.perturb, self.number))


class Processes:
    """A ``Track``; the untouched runs that numbers are held against are made when first needed."""

    known_s = 0.0

    def __init__(
        self,
        course: Course,
        running: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = clock,
    ) -> None:
        self._course = course
        self._running = running  # hears what each run is for
        self._clock = clock
        self._numbers = count(1)
        self._plain: dict[_Plain, tuple[Readings, Sample]] = {}
        self._open: dict[_Plain, tuple[TrialRun, Sample]] = {}  # those of which seeds must tell
        self._warnings: set[str] = set()  # where the script warns of something, and numbers hold

    def check(
        self, changes: Changes, toggle: Toggle | None = None, patience_s: Patience = forever
    ) -> Checked:
        """Run it once with these changes, and look at its numbers; then time the last of them."""
        if toggle:  # on in all that count
            toggle = replace(toggle, warmup=self._course.costs.steps + 1)
        plan = Plan(changes, seed=SEED, outputs=True, toggle=toggle)
        run, seen, (switched,) = self._switched(changes, plan, patience_s())
        compiled = seen.evidence.compiled
        times = Checked(
            step_ms=step_ms(seen.evidence),
            peak_bytes=run.peak_bytes,
            compile_s=sum(each.seconds for each in compiled),
            slow_s=pace.slow_s(seen.evidence),
            recompiled=sum(each.again > 0 for each in compiled),
            batch=seen.batch,
            waits=pace.waits(seen.evidence),
            noise=pace.noise(seen.evidence),
            steps=len(seen.evidence.steps),
            others=seen.evidence.others or 0.0,
            times=switched,
        )
        if not changes:
            self._plain[_Plain()] = run.readings, seen
            self._check_metrics(seen)
            numbers, apart = self._null()
            note = f"{numbers}; step times {percent(apart)} apart"
            return replace(times, note=note, apart=apart)
        effects, precision = self._effect(changes)
        drawn = {each.name for each in run.outcomes if each.effect == "other-randomness"}
        effects |= {"other-randomness"} if drawn else set()
        guarded = self._guarded(changes, run.readings, effects, precision, drawn)
        if guarded.needs_seeds:
            self._open[_Plain(changes)] = run, seen
            return replace(times, needs_seeds=True)
        if guarded.ok and "other-randomness" in effects:  # later ones are held against this
            self._plain[_Plain(changes)] = run.readings, seen
        return self._told(times, guarded, run, seen, precision)

    def over_seeds(self, changes: Changes) -> Checked:
        """The verdict on numbers that a check left open."""
        this = _Plain(changes)
        if this not in self._open:  # a search that is resumed
            self._open[this] = self._run(changes, Plan(changes, seed=SEED, outputs=True))
        run, seen = self._open.pop(this)
        seeds, (_, precision) = range(SEED + 1, SEED + SEEDS), self._effect(changes)
        ours = [self._numbers_of(changes, seed) for seed in seeds]
        theirs = tuple(self._readings(seed) for seed in seeds)
        untouched = Untouched(self._readings(SEED), other_seeds=theirs)
        guarded = guard("other-randomness", run.readings, untouched, precision, ours)
        if guarded.ok:
            self._plain[this] = run.readings, seen
        return self._told(Checked(), guarded, run, seen, precision)

    def sample(self, changes: Changes) -> Sample:
        """Run it once with these changes, to be timed."""
        return self._run(changes, Plan(changes))[1]

    def blocks(self, changes: Changes, toggle: Toggle) -> Pairs[float]:
        """Milliseconds of a step with the last changes off and on, in pairs of blocks."""
        return self._switched(changes, Plan(changes, toggle=toggle))[2][0]

    def each(self, changes: Changes, toggle: Toggle) -> tuple[Pairs[float], ...]:
        """Likewise, with each of the last changes off and on by itself."""
        return self._switched(changes, Plan(changes, toggle=replace(toggle, each=True)))[2]

    def knows(self, _: Changes, /) -> bool:
        """Nothing: each run is a fresh one."""
        return False

    def left_s(self) -> float:
        """How much of the budget is left."""
        return self._course.ends_s - self._clock()

    # Runs

    def _switched(
        self, changes: Changes, plan: Plan, patience_s: float = math.inf
    ) -> tuple[TrialRun, Sample, tuple[Pairs[float], ...]]:
        """A run, and the times of its blocks, if it has any: of all changes, or of each."""
        found: list[Block] = []
        toggle = plan.toggle
        run, seen = self._run(
            changes, plan, lambda folder: found.extend(read_blocks(folder)), patience_s
        )
        if toggle is None:
            return run, seen, (pairs_of(()),)
        members = ([x for x in found if x.member == each] for each in range(toggle.members))
        return run, seen, tuple(pairs_of(each[: 2 * toggle.pairs]) for each in members)

    def _run(
        self,
        changes: Changes,
        plan: Plan,
        read: Callable[[Path], None] = lambda _: None,
        patience_s: float = math.inf,
    ) -> tuple[TrialRun, Sample]:
        """A run that came to its end with all changes in force; else a ``RunError``."""
        costs, toggle = self._course.costs, plan.toggle
        steps = most = costs.steps
        if toggle:  # one more ends the last block, others are no part of any
            steps = (toggled_steps(toggle) + 1) * toggle.members
            most = 2 * steps + 1  # with two loaders, half of them are steps
        usual_s, left_s = costs.start_s + steps * costs.step_s, max(0.0, self.left_s())
        patience = SLOWEST * usual_s + min(PATIENCE_S, left_s)
        patience_s = min(patience_s, max(LEAST_PATIENCE * usual_s, left_s))
        settings = Settings(
            most,
            WARMUP,
            timeout_s=min(patience, patience_s),
            environment=self._environment(changes),
            in_place=self._course.in_place,
            step_ends=self._course.step_ends,
            compiled=self._course.compiled,
        )
        self._running(f"{_purpose(plan)} ({minutes(left_s)} left)")
        folder = self._course.folder / f"{next(self._numbers):04}"
        try:
            run = run_trial(self._course.words, plan, folder, settings)
            read(folder)
            seen = sample(run.recording)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.ending.timed_out and patience_s < patience:
            raise RunError("not-applicable", f"no room in the budget: it {run.ending.error}", True)
        _refuse(run, toggle.changes if toggle else 1)
        if not changes:
            self._knows(run)
        if not seen.evidence.steady:
            raise RunError("failed", "no step was finished after the warm-up: give more --steps")
        return run, seen

    def _knows(self, run: TrialRun) -> None:
        """What it warns of is no news later on."""
        self._warnings |= set(map(_place, run.ending.warnings))

    def _new_warning(self, run: TrialRun) -> str:
        """What the script warns of in this run and not untouched: it may have fallen back."""
        new = (each for each in run.ending.warnings if _place(each) not in self._warnings)
        return next((f"; {each[:LONGEST_WARNING]}" for each in new), "")

    def _environment(self, changes: Changes) -> dict[str, str]:
        found: dict[str, str] = {}
        for wanted in changes:
            before = self._course.changes[wanted.name].environment
            found |= before(wanted.options) if before else {}
        return found

    # Numbers

    def _effect(self, changes: Changes) -> tuple[set[Effect], str]:
        """What all changes together do to the numbers, and the coarsest precision in the run."""
        chosen = [self._course.changes[wanted.name] for wanted in changes]
        known = (self._course.precision, *(each.precision for each in chosen))
        precision = max(known, key=lambda name: FLOORS.get(name, 0.0))
        return {each.effect for each in chosen}, precision

    def _guarded(
        self,
        changes: Changes,
        run: Readings,
        effects: set[Effect],
        precision: str,
        drawn: Set[str],
    ) -> Guarded:
        """Hold the run against the untouched ones; other randomness only where that is needed.

        ``drawn`` are the changes that turned out to bring some.
        """
        found = self._judged(_loosest(effects), run, precision)
        if found.ok or "other-randomness" not in effects:
            return found
        if kept := self._kept_before(changes):
            new = changes[len(kept) :]
            mine, finer = self._effect(new)
            if "other-randomness" not in mine and drawn.isdisjoint(each.name for each in new):
                return self._judged(_loosest(mine), run, finer, kept)
        return guard("other-randomness", run, self._reference(precision), precision)

    def _told(
        self, times: Checked, guarded: Guarded, run: TrialRun, seen: Sample, precision: str
    ) -> Checked:
        """What becomes of a run by its numbers, and by metrics of the user's own."""
        worse = self._worse(seen, precision) if guarded.ok else ""
        refused: Verdict | None = None if guarded.ok and not worse else "drifted"
        note = f"{worse or guarded.reason}{self._new_warning(run)}" if refused else ""
        if not refused:
            self._knows(run)
        drift, tolerance = guarded.drift, guarded.tolerance
        return replace(times, refused=refused, note=note, drift=drift, tolerance=tolerance)

    def _kept_before(self, changes: Changes) -> Changes:
        """Those before the last that draw other random numbers than the script itself, if any."""
        for number in range(len(changes) - 1, 0, -1):
            if _Plain(changes[:number]) in self._plain:
                return changes[:number]
        before = changes[:-1]  # of a search that is resumed
        return before if "other-randomness" in self._effect(before)[0] else ()

    def _judged(self, effect: Effect, run: Readings, precision: str, kept: Changes = ()) -> Guarded:
        """Held against as few untouched runs as will do: each more may allow more."""
        found = guard(effect, run, Untouched(self._readings(SEED, kept=kept)), precision)
        for moves in (0,) if effect == "exact" else (0, 1, MOVES):
            settled = found.ok or found.drift is None  # what has no drift is wrong by any measure
            if settled or (moves == MOVES and not found.nearly):
                break
            found = guard(effect, run, self._reference(precision, moves, kept), precision)
        return found

    def _reference(self, precision: str, moves: int = 1, kept: Changes = ()) -> Untouched:
        """The untouched runs: one, the same again, and some moved by a hair in that precision."""
        null, again = (self._readings(SEED, number=each, kept=kept) for each in (1, 2))
        numbers = range(1, moves + 1)
        moved = tuple(self._readings(SEED, precision, number, kept) for number in numbers)
        return Untouched(null, (again,), moved)

    def _readings(
        self, seed: int, perturb: str = "", number: int = 1, kept: Changes = ()
    ) -> Readings:
        """Those of a run that others are held against, which is made when first needed."""
        key = _Plain(kept, seed, perturb, number)
        if key not in self._plain:
            units = UNITS.get(perturb, 1) if number > 1 else 1
            plan = Plan(kept, seed, perturb or None, number, units, outputs=True)
            run, seen = self._run(kept, plan)
            self._plain[key] = run.readings, seen
        return self._plain[key][0]

    def _numbers_of(self, changes: Changes, seed: int) -> Readings:
        return self._run(changes, Plan(changes, seed=seed, outputs=True))[0].readings

    def _null(self) -> tuple[str, float]:
        """How far two untouched runs with one seed part: in their numbers, and in their time."""
        null, again = (self._readings(SEED, number=each) for each in (1, 2))
        numbers = guard("exact", again, Untouched(null)).reason.partition(", none allowed")[0]
        first, second = (
            step_ms(self._plain[_Plain(number=each)][1].evidence) or 0.0 for each in (1, 2)
        )
        return numbers, abs(first - second) / max(first, second)

    # Metrics of the user's own

    def _check_metrics(self, seen: Sample) -> None:
        for each in self._course.metrics:
            if each.read(seen) is None:
                raise PitstopError(
                    f"no number for {each.quality.name} was printed in "
                    f"{count_of(len(seen.evidence.steps), 'step')}: check the pattern, or give "
                    "more --steps"
                )

    def _worse(self, seen: Sample, precision: str) -> str:
        """The first metric that is worse than in any untouched run, and by how much."""
        if self._course.metrics:
            self._reference(precision)  # two runs, and one of rounding: metrics are as noisy
        for each in self._course.metrics:
            untouched = [other for key, (_, other) in self._plain.items() if not key.kept]
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


def _purpose(plan: Plan) -> str:
    """What a run is for, in a few words."""
    switched = plan.toggle.changes if plan.toggle else 1
    names = " + ".join(map(label, plan.changes[-switched:])) or "untouched"
    if others := len(plan.changes[:-switched]):
        names += f" on top of {count_of(others, 'other')}"
    if plan.perturb:
        return f"{names}, its weights moved by a hair"
    if plan.seed:
        return f"{names}, with another seed"
    timed = "off and on" if plan.toggle else "timed"
    return f"{names}, its numbers" if plan.outputs else f"{names}, {timed}"


def _loosest(effects: set[Effect]) -> Effect:
    """What numbers may do that come from the same random numbers."""
    usual: list[Effect] = [each for each in effects if each != "other-randomness"]
    return max(usual, key=EFFECTS.index, default="rounding")


def _refuse(run: TrialRun, tried: int) -> None:
    """A run that failed, or in which one of the last changes did not take hold, tells nothing."""
    if run.ending.error:
        verdict: Verdict = "out-of-memory" if run.ending.out_of_memory else "failed"
        raise RunError(verdict, run.ending.error)
    for each in run.outcomes[-tried:]:
        if each.declined:
            raise RunError("not-applicable", each.declined)


def _place(warning: str) -> str:
    """Where it comes from: what it says may have numbers in it that differ from run to run."""
    return warning.partition(WARNS)[0]
