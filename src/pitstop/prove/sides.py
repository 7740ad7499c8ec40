"""Sides: fresh processes of the base and of the edit, each in its own tree."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pitstop.compare.quantities import Sample
from pitstop.core.errors import PitstopError
from pitstop.tune.change import Change
from pitstop.tune.checked import Changes, RunError
from pitstop.tune.guard.readings import Readings
from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.runs.fresh import Course, FreshRuns
from pitstop.tune.runs.trials import TrialRun

EDIT: Changes = (Wanted("edit"),)  # the edit, as if it were one of tune's changes
AS_A_CHANGE = Change("edit", "rounding", ("time", "memory"), "", lambda _: None)


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, for whoever knows changes only: without any it is the base that runs."""

    base: FreshRuns
    edit: FreshRuns

    def run(self, changes: Changes, plan: Plan) -> tuple[TrialRun, Sample]:
        """Run the side that these changes mean, with its numbers looked at closely."""
        plan = replace(plan, changes=(), closely=plan.outputs)
        run, seen = self._of_edit(plan) if changes else self.base.run((), plan)
        return replace(run, readings=without_repeats(run.readings)), seen

    def sample(self, changes: Changes) -> Sample:
        """Run it once, to be timed."""
        return self.run(changes, Plan())[1]

    def left_s(self) -> float:
        """How much of the budget is left."""
        return self.base.left_s()

    def _of_edit(self, plan: Plan) -> tuple[TrialRun, Sample]:
        try:
            return self.edit.run((), plan)
        except RunError as error:
            if error.hasty:
                raise
            raise PitstopError(
                f"the edit fails: {error.note}: mend it first", *error.below
            ) from None


def without_repeats(readings: Readings) -> Readings:
    """What an edit may do less of is left out: printing, and calls that return the same again."""
    distinct = {(each.module, each.shape, each.data): each for each in readings.outputs}
    return replace(readings, lines=None, calls=None, outputs=tuple(distinct.values()))


def both(base: Course, edit: Course, running: Callable[[str], None]) -> Sides:
    """The two sides as real processes."""
    return Sides(FreshRuns(base, running), FreshRuns(edit, running))
