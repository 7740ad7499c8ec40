"""Together: gains that are too small for the noise one by one, but not all at once."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pitstop.compare.pairs import FEWEST, LOOKS, Pairs
from pitstop.core.trial import Trial
from pitstop.tune import weigh
from pitstop.tune.budget import MOST, Costs
from pitstop.tune.candidates import Candidate, rival
from pitstop.tune.looks import tell_enough
from pitstop.tune.plan import Wanted
from pitstop.tune.timed import in_blocks
from pitstop.tune.track import LEAST_PATIENCE, Changes, Checked, RunError, Track, label

ENDS_EARLY = "the script ends before enough blocks were timed"
MANY_TO_FEW = LOOKS[::-1]  # pairs: fewer where there is no room for more
JOIN = " + "  # between names of changes that are tried as one
Drowned = tuple[Candidate, Trial]  # what seemed faster, and its trial


def drowned(candidate: Candidate, trial: Trial) -> bool:
    """Whether a change seemed faster, though not beyond the noise, and can be timed with others."""
    ratio = trial.step.ratio if trial.step else None
    seems = trial.verdict == "noisy" and ratio is not None and ratio < 1
    change = candidate.change
    return seems and change.toggles and not change.alone and not change.when.quiet


def worth_another_look(found: Sequence[Drowned], kept: Iterable[Candidate]) -> list[Candidate]:
    """All that drowned, without rivals."""
    chosen: list[Candidate] = []
    for each, _ in found:
        if not rival(each.change, [other.change for other in (*kept, *chosen)]):
            chosen.append(each)
    return chosen


def seeming_gain(group: Sequence[Candidate], found: Sequence[Drowned]) -> float:
    """The share of a step that they seemed to save, one by one."""
    tried = [trial.step for each, trial in found if each in group]
    return 1 - math.prod(step.ratio for step in tried if step and step.ratio)


class Together:
    """Some changes as one: their numbers, and their time in blocks of steps."""

    def __init__(
        self,
        track: Track,
        costs: Costs,
        group: Sequence[Candidate],
        pairs: int = MOST,
        usual: Costs | None = None,
    ) -> None:
        self._track = track
        self.costs = costs.settled(*group)  # also by how long the script turns out to be
        self._usual = (usual or costs).settled(*group)
        self._pairs = pairs
        self._wanted: list[Wanted] = [wanted for each in group for wanted in each.wanted()]
        self.name = JOIN.join(map(label, self._wanted))
        self.can_be_timed = self.costs.has_blocks(switched=True)
        self.least_s = self.costs.run_s + self.costs.blocks_s(pairs)

    def tried(
        self,
        kept: Changes,
        base: Checked,
        limit_bytes: int | None,
        left_s: Callable[[], float],
        goes_on: bool,
    ) -> tuple[Checked, Trial]:
        """The first run with all of them, on top of what is kept, and the verdict."""
        changes = (*kept, *self._wanted)
        toggle = replace(self.costs.toggle, changes=len(self._wanted), pairs=self._pairs)
        try:
            checked = self._track.check(
                changes,
                toggle if goes_on else None,
                lambda: max(LEAST_PATIENCE * self.least_s, left_s()),
                new=len(self._wanted),
            )
            if checked.refused:
                trial = weigh.trial(self.name, checked.refused, base, checked, checked.note)
                return checked, trial
            if goes_on and checked.times.before and not self._are_all(checked.times):
                done = replace(toggle, warmup=checked.steps + 1)
                self._ended(done.length(2 * len(checked.times.before)))
            times = self._timed(changes, checked.times, left_s)
            trial = weigh.by_time(self.name, base, checked, times, limit_bytes)
            return checked, weigh.over_seeds(self._track, changes, checked, trial)
        except RunError as error:
            return base, Trial(self.name, error.verdict, note=error.note)

    def _timed(
        self, changes: Changes, times: Pairs[float], left_s: Callable[[], float]
    ) -> Pairs[float]:
        """Pairs of blocks, of shorter ones where the script ends before enough of these."""
        for _ in range(3):
            known = len(times.before) // 2 * 2
            looks = self.costs.looks(left_s(), toggles=True, known=known)
            number = len(self._wanted)
            times = in_blocks(self._track, changes, self.costs, looks, times, number)
            if len(times.before) >= FEWEST:
                return times
            self._ended(self.costs.toggle.length(2 * (len(times.before) - known)))
            if not self.costs.pairs:  # as far as is known: an odd pair is not among them
                self.costs = self._usual
        raise RunError("not-applicable", ENDS_EARLY)

    def _are_all(self, times: Pairs[float]) -> bool:
        return len(times.before) >= self._pairs or tell_enough(times)

    def _ended(self, steps: int) -> None:
        """The script had so many, and none for another pair."""
        self.costs = self.costs.of_length(steps + 1)


def closest_first(
    track: Track, costs: Costs, noise: float, group: Sequence[Candidate], found: Sequence[Drowned]
) -> list[Together]:
    """The ways to time a group, the closest look first: in longer blocks, then in fewer of them.

    One alone that was timed by as many pairs as can be is told more by longer blocks only.
    """
    tries = [Together(track, each, group, usual=costs) for each in costs.calmer(noise)]
    looked = [trial.step.pairs for each, trial in found if each in group and trial.step]
    if looked != [MOST]:
        tries += [Together(track, costs, group, pairs) for pairs in MANY_TO_FEW]
    return [each for each in tries if each.can_be_timed]


def first_look(
    track: Track, costs: Costs, group: Sequence[Candidate], left_s: float
) -> Together | None:
    """A group as one, with as many pairs as any first look has; nothing where there is no room."""
    pairs = costs.settled(*group).first_look(left_s).pairs
    found = Together(track, costs, group, pairs)
    return found if found.can_be_timed and found.least_s <= left_s else None
