"""Processes: the track on which each run of the script is a fresh process."""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from pitstop.compare.differences import places
from pitstop.compare.pairs import Pairs
from pitstop.compare.quantities import Quantity, Sample, sample, step_ms
from pitstop.core.errors import PitstopError
from pitstop.core.trial import Verdict
from pitstop.core.units import count as count_of
from pitstop.core.units import minutes
from pitstop.profile.options import UNKNOWN, StepEnds
from pitstop.profile.runs import About
from pitstop.tune import pace
from pitstop.tune.budget import WARMUP, Costs, toggled_steps
from pitstop.tune.change import Change
from pitstop.tune.looks import pairs_of
from pitstop.tune.plan import Block, Plan, Toggle, read_blocks
from pitstop.tune.referee import SEED, Referee
from pitstop.tune.shelf import Shelf
from pitstop.tune.track import LEAST_PATIENCE, Changes, Checked, Patience, RunError, forever, label
from pitstop.tune.trials import Settings, TrialRun, run_trial
from pitstop.tune.turns import clock

PATIENCE_S = 300.0  # for compilers, beside ten times the usual, but not beyond the budget
SLOWEST = 10  # times as long as the untouched run: such a change is none, and may hang


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
    shelf: Path | None = None  # the runs that others are held against, likewise
    about: About = field(default_factory=About)  # what its first run ran on


class Processes:
    """A ``Track``."""

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
        self._referee = Referee(
            course.changes, course.precision, course.metrics, self._run, Shelf(course.shelf)
        )

    def check(
        self,
        changes: Changes,
        toggle: Toggle | None = None,
        patience_s: Patience = forever,
        new: int = 1,
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
            return self._referee.null(run, seen, times)
        return self._referee.held(changes, new, (run, seen), times)

    def over_seeds(self, changes: Changes) -> Checked:
        """The verdict on numbers that a check left open."""
        return self._referee.over_seeds(changes)

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
            _check_place(self._course.about, run.about)
            read(folder)
            seen = sample(run.recording)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.ending.timed_out and patience_s < patience:
            raise RunError("not-applicable", f"no room in the budget: it {run.ending.error}", True)
        _refuse(run, toggle.changes if toggle else 1)
        if not changes:
            self._referee.knows(run.ending.warnings)
        if not seen.evidence.steady:
            raise RunError("failed", "no step was finished after the warm-up: give more --steps")
        return run, seen

    def _environment(self, changes: Changes) -> dict[str, str]:
        found: dict[str, str] = {}
        for wanted in changes:
            before = self._course.changes[wanted.name].environment
            found |= before(wanted.options) if before else {}
        return found


def _check_place(first: About, now: About) -> None:
    """What was measured before must be of the place where the search goes on."""
    for words, before, after in places(first, now):
        if before and after and before != after:
            raise PitstopError(
                f"another {words} than when this search began, {after} instead of {before}: begin "
                "a new one, without --resume"
            )


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


def _refuse(run: TrialRun, tried: int) -> None:
    """A run that failed, or in which one of the last changes did not take hold, tells nothing."""
    if run.ending.error:
        verdict: Verdict = "out-of-memory" if run.ending.out_of_memory else "failed"
        raise RunError(verdict, run.ending.error)
    for each in run.outcomes[-tried:]:
        if each.declined:
            raise RunError("not-applicable", each.declined)
