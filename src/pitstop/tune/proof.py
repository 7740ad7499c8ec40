"""Proof: the untouched script against all that was kept.

Pairs of fresh processes, as a user would run them. These lie far apart in time: where six of them
are not clear, and all that was kept can be switched, blocks of steps with all of it off and on
decide; at once, where the budget has no room for both. So do they where what was kept changes how
short epochs begin, which a few steps of a fresh run take for hiccups. Where one change alone was
kept, its trial was such a comparison already, and is not repeated if there is no room for better.
"""

from collections.abc import Sequence
from dataclasses import replace

from pitstop.compare import pairs
from pitstop.compare.judge import judge
from pitstop.compare.pairs import Pairs, looks_within
from pitstop.compare.quantities import Sample
from pitstop.core.units import count
from pitstop.tune.budget import Costs
from pitstop.tune.candidates import Candidate
from pitstop.tune.found import PASSENGER, Asked, Found, Listener, leading
from pitstop.tune.looks import compared
from pitstop.tune.timed import in_blocks
from pitstop.tune.track import RunError, Track

SPENT = "the budget is spent"


class Proof:
    """One proof. ``found`` grows with it, and is there after Ctrl-C."""

    def __init__(
        self, track: Track, costs: Costs, asked: Asked, found: Found, kept: Sequence[Candidate]
    ) -> None:
        self._track = track
        self._costs = costs.settled(*kept)
        self._asked = asked
        switched = asked.goal == "time" and all(each.change.toggles for each in kept)
        self._switched = self._costs.has_blocks(switched)
        self.found = found

    def run(self, listener: Listener) -> None:
        """Fresh pairs where there is room for them, and blocks where they leave it open."""
        listener.doing("the proof: untouched against all that is kept")
        closer_s = self._costs.blocks_s(pairs.FEWEST) if self._switched else 0.0
        most = self._costs.affordable(self._track.left_s() - closer_s, toggles=False)
        try:
            if self._switched and self._costs.toggle.epochs and self._in_blocks():
                return
            if most >= pairs.FEWEST:
                if not self._by_pairs(most) and self._switched:
                    listener.doing("the proof, closer: all that is kept off and on")
                    self._switched = self._in_blocks()
                    more = self._costs.affordable(self._track.left_s(), toggles=False)
                    if not self._switched and more > pairs.FEWEST:
                        self._by_pairs(more)
            elif not ((self._switched and self._in_blocks()) or self._by_its_trial()):
                few = max(1, most)
                self.found = self.found.noted(
                    f"the proof has only {count(few, 'pair')}, since {SPENT}"
                )
                self._by_pairs(few)
        except RunError as error:
            self.found = self.found.noted(f"the proof was not finished: {error.note}")
            if not error.hasty:
                self.found = replace(self.found, broken=error.note)

    def _by_pairs(self, most: int) -> bool:
        """Fresh processes, run by run; whether they have settled it."""
        found = pairs.measure(
            lambda: self._track.sample(()),
            lambda: self._track.sample(self.found.kept),
            self._settled,
            looks_within(min(most, pairs.FEWEST) if self._switched else most),
        )
        settled = bool(found.before) and self._settled(found)
        if found.interrupted:
            raise KeyboardInterrupt
        return settled

    def _settled(self, found: Pairs[Sample]) -> bool:
        proof = judge(found.before, found.after, self._asked.metrics)
        self.found = replace(self.found, proof=proof)
        return leading(self.found, self._asked.goal).verdict != "inconclusive"

    def _in_blocks(self) -> bool:
        """The step time from one process; false where there is no room for it."""
        affordable = self._costs.affordable(self._track.left_s(), toggles=True)
        if affordable < pairs.FEWEST:
            return False
        kept = self.found.kept
        looks = looks_within(affordable)
        times = in_blocks(self._track, kept, self._costs, looks, switched=len(kept))
        if len(times.before) < pairs.FEWEST:
            return False  # the script is too short to be cut into blocks
        step = compared(times)
        what = "whole epochs" if self._costs.toggle.epochs else "steps"
        step = replace(step, reason=f"{step.reason}, by blocks of {what}")
        others = (each for each in self.found.proof if each.metric != step.metric)
        self.found = replace(self.found, proof=(step, *others))
        return True

    def _by_its_trial(self) -> bool:
        """The pairs of the only change that was ever kept; false where there are none."""
        steps = [each.step for each in self.found.trials if each.verdict == "kept"]
        dropped = any(each.note == PASSENGER for each in self.found.trials)
        if len(steps) != 1 or steps[0] is None or dropped:
            return False  # its trial was on top of others
        step = replace(steps[0], reason=f"{steps[0].reason}, in its trial")
        self.found = replace(self.found, proof=(step,))
        return True
