"""Standing: where a search stands: what is kept, what a run costs by now, what time is left."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pitstop.compare.pairs import LOOKS
from pitstop.tune.budget import Costs, toggled_steps
from pitstop.tune.candidates import Candidate
from pitstop.tune.found import Asked
from pitstop.tune.plan import Toggle
from pitstop.tune.together import Drowned
from pitstop.tune.track import Changes, Checked, Track


class Standing:
    """All that decides what is tried next, and how; it changes as the search goes on."""

    def __init__(self, track: Track, costs: Costs, asked: Asked) -> None:
        self.track = track
        self.costs = costs
        self.asked = asked
        self.untouched = Checked()
        self.base = Checked()  # the last run with all that is kept
        self.kept: list[Candidate] = []  # each with the one set of options that was kept
        self.drowned: list[Drowned] = []  # what seemed faster, but was noisy
        self.later: list[Candidate] = []  # those to try after this one, while there is room
        self.fresh: set[str] = set()  # changes that turned out not to be switched in this script
        self.pace_ms = math.inf  # a step with all that is kept, in the fastest trial of others

    @property
    def changes(self) -> Changes:
        """All that is kept."""
        return tuple(wanted for candidate in self.kept for wanted in candidate.wanted())

    def left_s(self, *more: Candidate) -> float:
        """What is left of the budget when the proof of what is kept, and of more, has its share."""
        tried = (*self.kept, *more)
        return self.track.left_s() - self.costs.reserve_s(*tried)

    def lent_s(self, changes: Changes) -> float:
        """What of that is the time of answers on the disk, which a new question makes void."""
        return 0.0 if self.track.knows(changes) else self.track.known_s

    def spare_s(self, *candidates: Candidate) -> float:
        """What is left for some candidates when later ones have their first looks, too."""
        return self.left_s(*candidates, *self.later) - self.costs.candidates_s(self.later)

    def patience_s(self, candidate: Candidate) -> float:
        """For a candidate's numbers: all but what its time, later ones and the proof will take."""
        timing_s = 0.0 if self.goes_on(candidate) else self.costs.timing_s(candidate)
        return self.spare_s(candidate) - timing_s

    def goes_on(self, candidate: Candidate) -> bool:
        """Whether one run can tell its numbers and its time: metrics are read at its end."""
        by_time = self.asked.goal == "time" and not self.asked.metrics
        return self.costs.goes_on(candidate) and by_time

    def slower_start_s(self, checked: Checked) -> float:
        """How much later a run with a change is at speed: it compiles, or chooses algorithms."""
        compiles_s = checked.compile_s - self.base.compile_s
        return max(0.0, compiles_s, checked.slow_s - self.base.slow_s)

    def keep(self, candidates: Sequence[Candidate], checked: Checked, slower_s: float) -> None:
        """These are kept; a run with them is at speed so much later."""
        self.base = checked
        self.pace_ms = math.inf
        self.kept += candidates
        burst = max(each.burst for each in self.kept)
        self.costs = self.costs.with_compiling(slower_s).evened(checked.noise, burst)

    def unswitched(self, candidate: Candidate) -> Candidate:
        """A change that this script does not let be switched, after all."""
        self.fresh.add(candidate.change.name)
        return replace(candidate, change=replace(candidate.change, toggles=False))

    def ends_after(self, steps: int) -> None:
        """The script has that many, or some more: of interest where a usual second look has not."""
        if steps <= toggled_steps(replace(self.costs.toggle, pairs=LOOKS[1])):
            self.costs = self.costs.of_length(steps)

    def ended_early(self, toggle: Toggle, blocks: int) -> None:
        """The script has no more steps than that, and so many pairs of blocks."""
        least = self.base.steps if self.costs.length is None else 0
        self.costs = self.costs.of_length(max(toggle.length(2 * blocks) + 1, least))
