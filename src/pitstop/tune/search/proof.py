"""Proof: the untouched script against all that was kept, in fresh processes from their first line.

A run with all of it is held against an untouched one over more steps than twins have seen. Then
pairs of fresh runs tell the time, where the budget has room for them. Else all that can be switched
is switched once more, in the process that the search has used.
"""

from dataclasses import replace

from pitstop.compare import pairs
from pitstop.compare.judge import judge
from pitstop.compare.pairs import FEWEST, Pairs, looks_within
from pitstop.compare.quantities import Sample
from pitstop.core.comparison import Comparison
from pitstop.tune.bench.bench import Bench
from pitstop.tune.checked import Changes, RunError
from pitstop.tune.found import Asked, Found, Listener, leading
from pitstop.tune.runs.fresh import GUARDED, Fresh
from pitstop.tune.runs.timed import Timed, by_blocks


class Proof:
    """One proof. ``found`` grows with it, and is there after Ctrl-C."""

    def __init__(
        self, bench: Bench, fresh: Fresh, asked: Asked, found: Found, listener: Listener
    ) -> None:
        self._bench = bench
        self._fresh = fresh
        self._asked = asked
        self._listener = listener
        self.found = found

    def run(self, switched: bool, known: tuple[Changes, Timed] | None) -> None:
        """Blocks first, if what was kept can be switched: then something is proved in any case.

        ``known`` is what was last timed against the untouched script.
        """
        by_time = self._asked.goal == "time"
        self._bench.reserve_s = self._fresh.reserve_s = 0.0
        if by_time and known and known[0] == self.found.kept:
            self._settle(known[1])
        elif by_time and switched:
            self._listener.doing("all that is kept, off and on")
            try:
                self._settle(by_blocks(self._bench.blocks((), self.found.kept)))
            except RunError as error:
                self.found = replace(self.found, unproved=error.note)
        self._bench.close()
        if not self._guard():
            return
        affordable = self._fresh.costs.affordable(self._fresh.left_s())
        try:
            if affordable >= FEWEST or not by_time:
                self._listener.doing("the proof: untouched against all that is kept")
                self._by_pairs(min(affordable, FEWEST))
            elif not switched:
                self._listener.doing("the proof: untouched against all that is kept")
                self._settle(self._fresh.times((), self.found.kept))
        except RunError as error:
            self._open(error)

    def _guard(self) -> bool:
        """Whether what was kept holds from the first line on, over the steps of a fresh run."""
        if self._fresh.left_s() < GUARDED * self._fresh.costs.run_s:
            said = "the budget had no room for a fresh run: the numbers hold in twin steps"
            self.found = replace(self.found, unproved=said)
            return False
        self._listener.doing("the numbers of a fresh run with all that is kept")
        try:
            checked = self._fresh.check(self.found.kept)
        except RunError as error:
            self._open(error)
            return not error.hasty and not self.found.broken
        if checked.refused:
            self.found = replace(self.found, broken=checked.note)
        return not checked.refused

    def _open(self, error: RunError) -> None:
        self.found = replace(self.found, unproved=error.note)
        if not error.hasty:
            self.found = replace(self.found, broken=error.note)

    def _settle(self, timed: Timed) -> None:
        step = timed.step
        others = (each for each in self.found.proof if each.metric != step.metric)
        both = (step.before, step.after)
        known = both if None not in both else self.found.step_ms
        self.found = replace(self.found, proof=(step, *others), step_ms=known)  # type: ignore[arg-type]

    def _by_pairs(self, most: int) -> None:
        """Fresh processes, run by run."""
        found = pairs.measure(
            lambda: self._fresh.sample(()),
            lambda: self._fresh.sample(self.found.kept),
            lambda times: leading(self._judged(times), self._asked.goal).verdict != "inconclusive",
            looks_within(max(1, most)),
        )
        if found.before:
            judged = self._judged(found)
            if not self.found.proof or self._is_clear(leading(judged, self._asked.goal)):
                self.found = judged
        if found.interrupted:
            raise KeyboardInterrupt

    def _judged(self, times: Pairs[Sample]) -> Found:
        proof = judge(times.before, times.after, self._asked.metrics)
        step = next((each for each in proof if each.metric == "step"), None)
        known = self.found.step_ms
        if step and step.before and step.after:
            known = step.before, step.after
        return replace(self.found, proof=proof, step_ms=known)

    @staticmethod
    def _is_clear(step: Comparison) -> bool:
        return step.verdict != "inconclusive"
