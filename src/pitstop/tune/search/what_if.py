"""What if: what an edit of the source is worth, tried in twins before anybody edits.

Nothing of this is kept: that a weight is zero now does not mean that it stays so. Places whose
numbers hold by themselves are tried all together once more, in more twins; then comes the time.
"""

from dataclasses import replace

from pitstop.core.trial import Trial
from pitstop.tune.bench.bench import Bench
from pitstop.tune.checked import Changes, RunError, label
from pitstop.tune.found import Listener, WhatIf
from pitstop.tune.guard.verdict import Guarded
from pitstop.tune.plan import Wanted
from pitstop.tune.runs.timed import Timed, by_blocks, by_time
from pitstop.tune.search.numbers import Numbers
from pitstop.tune.search.order import Candidate

TWINS = 12  # of all together: what is used every tenth step shows
FEW = 3  # twins of one place alone
SHARE = 0.35  # of the budget: the rest is for what can be kept
ALONE = 0.05  # of the step, promised: what is timed by itself, too
BLOCKS = 40  # steps that a timing takes, about


class WhatIfs:
    """The trials of one search."""

    def __init__(self, bench: Bench, numbers: Numbers, listener: Listener) -> None:
        self._bench = bench
        self._numbers = numbers
        self._listener = listener
        self._ends_s = (1 - SHARE) * bench.left_s()
        self.trials: list[Trial] = []

    def run(self, candidate: Candidate) -> WhatIf | None:
        """What all that holds is worth together; null where nothing does, or nothing is gained."""
        holding = [each for each in candidate.wanted() if self._has_room() and self._holds(each)]
        while holding and self._has_room():
            self._listener.doing(f"what nobody needs, left out: {', '.join(map(_place, holding))}")
            try:
                return self._together(tuple(holding))
            except RunError as error:
                self._listener.say(f"  what nobody needs: {error.note}")
                holding = holding[:-1]  # the smallest one goes
        return None

    def _together(self, on: Changes) -> WhatIf | None:
        guarded = self._numbers.of(on, TWINS)
        if not guarded.ok:
            raise RunError("drifted", guarded.reason)
        timed = by_blocks(self._bench.blocks((), on))
        found = WhatIf(on, timed.step, self._said(guarded), self._bench.lost(on))
        for each in on:
            self._tell(each, guarded, timed if len(on) == 1 else self._alone(each, len(on)))
        return found if timed.verdict == "kept" else None

    def _holds(self, wanted: Wanted) -> bool:
        """Whether its numbers do, by itself; else why not."""
        self._listener.doing(label(wanted))
        try:
            guarded = self._numbers.of((wanted,), FEW)
        except RunError as error:
            self._publish(Trial(label(wanted), error.verdict, note=error.note))
            return False
        if not guarded.ok:
            self._publish(Trial(label(wanted), "drifted", drift=guarded.drift, note=guarded.reason))
        return guarded.ok

    def _alone(self, wanted: Wanted, of: int) -> Timed | None:
        if of > 1 and self._has_room():
            try:
                return by_blocks(self._bench.blocks((), (wanted,)))
            except RunError:
                return None
        return None

    def _tell(self, wanted: Wanted, guarded: Guarded, timed: Timed | None) -> None:
        note = "; ".join((self._said(guarded), *self._bench.lost((wanted,))))
        trial = Trial(label(wanted), "what-if", drift=guarded.drift, note=note)
        if timed:
            trial = replace(by_time(label(wanted), timed, guarded, None), note=note)
            if trial.verdict == "kept":
                trial = replace(trial, verdict="what-if")
        self._publish(trial)

    def _said(self, guarded: Guarded) -> str:
        same = not guarded.drift and self._numbers.repeats
        return f"same numbers in {TWINS} of {TWINS} twins" if same else guarded.reason

    def _publish(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._listener.tried(trial)

    def _has_room(self) -> bool:
        return self._bench.left_s() - BLOCKS * self._bench.pace.step_s > self._ends_s


def _place(wanted: Wanted) -> str:
    return str(wanted.options.get("at", ""))
