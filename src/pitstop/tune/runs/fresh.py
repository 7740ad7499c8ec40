"""Fresh: runs of the script in processes of their own, from its first line on."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from statistics import fmean
from typing import Protocol

from pitstop.compare import pairs
from pitstop.compare.differences import places
from pitstop.compare.judge import BETWEEN_RUNS
from pitstop.compare.pairs import FEWEST, Pairs
from pitstop.compare.quantities import Quantity, Sample, sample
from pitstop.core.errors import PitstopError
from pitstop.core.trial import Verdict
from pitstop.core.units import minutes
from pitstop.profile.read.runs import About
from pitstop.profile.start.options import UNKNOWN, StepEnds
from pitstop.tune.change import Change
from pitstop.tune.checked import Changes, Checked, RunError, label
from pitstop.tune.guard.readings import Readings
from pitstop.tune.guard.referee import SEED, Referee
from pitstop.tune.plan import Plan
from pitstop.tune.runs.costs import WARMUP, Costs
from pitstop.tune.runs.machine_lock import clock
from pitstop.tune.runs.timed import Timed
from pitstop.tune.runs.trials import Settings, TrialRun, run_trial
from pitstop.tune.sandbox.copied_tree import Tree

HANGS_S = 300.0  # for compilers, beside ten times the usual, but not beyond the budget
SLOWEST = 10  # times as long as the untouched run: such a change is none, and may hang
GUARDED = 2  # fresh runs that hold all that was kept against the untouched script
LEAST_S = 1.0  # that a run gets, whatever is left
OF_A_RUN = 3  # blocks that the steps of one run are cut into


class Fresh(Protocol):
    """What a search may ask. What comes to nothing raises ``RunError``."""

    costs: Costs
    reserve_s: float  # of the budget, which no run may take

    def check(self, changes: Changes) -> Checked:
        """Run it with these changes, and hold its numbers against the untouched script."""

    def times(self, off: Changes, on: Changes) -> Timed:
        """The time of a step with the one and with the other, run by run in alternation."""

    def sample(self, changes: Changes) -> Sample:
        """Run it once with these changes, to be timed."""

    def left_s(self) -> float:
        """How much of the budget is left."""


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
    compiled: Path | None = None  # what compilers made, shared by all of them
    about: About = field(default_factory=About)  # what its first run ran on
    tree: Tree | None = None  # a copy of the user's tree, in which the command begins
    name: str = ""  # of what is run, where that is not the untouched script

    def environment(self, changes: Changes) -> dict[str, str]:
        """What changes set before Python starts."""
        found: dict[str, str] = {}
        for wanted in changes:
            before = self.changes[wanted.name].environment
            found |= before(wanted.options) if before else {}
        return found


class FreshRuns:
    """``Fresh``, of real processes."""

    def __init__(
        self,
        course: Course,
        running: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = clock,
    ) -> None:
        self._course = course
        self.costs = course.costs
        self.reserve_s = 0.0
        self._running = running  # hears what each run is for
        self._clock = clock
        self._numbers = count(1)
        self._referee = Referee(course.changes, course.precision, course.metrics, self.run)

    def check(self, changes: Changes) -> Checked:
        """With seeds, where its numbers are open without, and there is room for them."""
        run, seen = self.run(changes, Plan(changes, seed=SEED, outputs=True))
        return self._referee.held(changes, (run, seen))

    def readings(self) -> Readings:
        """What it computes without any change."""
        return self.run((), Plan((), seed=SEED, outputs=True))[0].readings

    def times(self, off: Changes, on: Changes) -> Timed:
        """A run is cut into some blocks, so that two pairs of runs tell a large gain."""
        most = max(
            FEWEST // OF_A_RUN, min(FEWEST, self.costs.affordable(self.left_s() - self.reserve_s))
        )
        before: list[float] = []
        after: list[float] = []
        for number in range(most):
            first, second = (on, off) if number % 2 else (off, on)
            one, other = self.blocks(first), self.blocks(second)
            before += other if number % 2 else one
            after += one if number % 2 else other
            found = self.compared(Pairs(tuple(before), tuple(after)))
            if len(before) >= FEWEST and found.step.verdict != "inconclusive":
                return found
            if number and found.gain <= 0:
                break  # it was no gain in two pairs of runs
        return self.compared(Pairs(tuple(before), tuple(after)))

    def sample(self, changes: Changes) -> Sample:
        """Run it once with these changes, to be timed."""
        return self.run(changes, Plan(changes))[1]

    def left_s(self) -> float:
        """How much of the budget is left."""
        return self._course.ends_s - self._clock()

    def blocks(self, changes: Changes) -> list[float]:
        """The mean step of each part of a run."""
        steps = self.sample(changes).evidence.steady
        cuts = [len(steps) * place // OF_A_RUN for place in range(OF_A_RUN + 1)]
        parts = [steps[a:b] or steps for a, b in pairwise(cuts)]
        return [fmean(step.total_ms for step in part) for part in parts]

    @staticmethod
    def compared(times: Pairs[float]) -> Timed:
        """What blocks of several runs say."""
        noise = pairs.noise(times.before, times.after).at_least(BETWEEN_RUNS)
        return Timed(times, pairs.verdict(times.before, times.after, noise))

    def run(self, changes: Changes, plan: Plan) -> tuple[TrialRun, Sample]:
        """A run that came to its end with all changes in force; else a ``RunError``."""
        course, left_s = self._course, max(LEAST_S, self.left_s() - self.reserve_s)
        patience_s = SLOWEST * course.costs.run_s + HANGS_S
        settings = Settings(
            course.costs.steps,
            WARMUP,
            timeout_s=min(patience_s, left_s),
            environment=course.environment(changes),
            in_place=course.in_place,
            step_ends=course.step_ends,
            compiled=course.compiled,
            tree=course.tree,
        )
        self._running(f"{_purpose(plan, course.name)} ({minutes(left_s)} left)")
        folder = course.folder / f"{next(self._numbers):04}"
        try:
            run = run_trial(course.words, plan, folder, settings)
            _check_place(course.about, run.about)
            seen = sample(run.recording)
            below = run.recording.stderr_tail() if run.ending.error else []
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if run.ending.timed_out and left_s < patience_s:
            raise RunError("not-applicable", f"no room in the budget: it {run.ending.error}", True)
        _refuse(run, below)
        if not seen.evidence.steady:
            raise RunError("failed", "no step was finished after the warm-up: give more --steps")
        return run, seen


def _check_place(first: About, now: About) -> None:
    """What was measured before must be of the place where it goes on."""
    for words, before, after in places(first, now):
        if before and after and before != after:
            raise PitstopError(f"another {words} than in the first run: {after}, not {before}")


def _purpose(plan: Plan, name: str) -> str:
    """What a run is for, in a few words."""
    names = name or " + ".join(map(label, plan.changes)) or "untouched"
    if plan.perturb:
        return f"a fresh run: {names}, its weights moved by a hair"
    if plan.seed:
        return f"a fresh run: {names}, with another seed"
    return f"a fresh run: {names}, its {'numbers' if plan.outputs else 'time'}"


def _refuse(run: TrialRun, below: Sequence[str]) -> None:
    """A run that failed, or in which a change did not take hold, tells nothing."""
    if run.ending.error:
        verdict: Verdict = "out-of-memory" if run.ending.out_of_memory else "failed"
        raise RunError(verdict, run.ending.error, below=tuple(below))
    for each in run.outcomes:
        if each.declined:
            raise RunError("not-applicable", each.declined)
