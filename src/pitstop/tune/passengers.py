"""Passengers: changes that were kept for what a later one does as well, or along with others.

Each that is kept is left out once more, and goes if it no longer helps. Those that can be switched
are left out one after the other in one process; those that were found together, since each drowned
by itself, in longer blocks. Once one is gone, another that did no more than that has another look.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pitstop.compare.pairs import FEWEST, LOOKS, Pairs
from pitstop.core.comparison import Comparison
from pitstop.core.trial import Trial
from pitstop.tune import weigh
from pitstop.tune.budget import Costs
from pitstop.tune.candidates import Candidate
from pitstop.tune.found import PASSENGER, Found, Listener
from pitstop.tune.laps import timed
from pitstop.tune.looks import clear, compared
from pitstop.tune.proof import SPENT
from pitstop.tune.standing import Standing
from pitstop.tune.together import JOIN
from pitstop.tune.track import Changes, RunError, label


class Passengers:
    """What is left out once more. ``found`` changes with it, and is there after Ctrl-C."""

    def __init__(
        self, now: Standing, joined: Sequence[Candidate], found: Found, listener: Listener
    ) -> None:
        self._now = now
        self._joined = joined  # those that were kept together
        self._listener = listener
        self.found = found

    def drop(self) -> None:
        """Leave each out once more but the last, if that was timed on top of all others."""
        now, usual = self._now, self._now.costs
        those = now.kept if self._joined[-1:] == now.kept[-1:] else now.kept[:-1]
        joined, dropped = [each for each in those if each in self._joined], False
        at_once = self._each_left_out([each for each in those if each not in joined], usual)
        at_once |= self._each_left_out(joined, self._calmest(usual))
        for candidate in those:
            (wanted,) = candidate.wanted()
            now.costs = self._calmest(usual) if candidate in joined else usual
            others = tuple(each for each in now.changes if each != wanted)
            times = at_once.get(wanted.name)
            if times is None or (dropped and not weigh.helps(compared(times))):
                times = self._left_out(candidate, others)
            if times is None:
                continue
            step = compared(times)
            if now.costs.length is not None:  # as was learned by this
                usual = usual.of_length(now.costs.length)
            if not weigh.helps(step) and self._holds(others):
                now.kept = [each for each in now.kept if each != candidate]
                self._told(label(wanted), step)
                dropped = True  # what did no more than that one may do it now
        now.costs = usual

    def _each_left_out(self, those: Sequence[Candidate], costs: Costs) -> dict[str, Pairs[float]]:
        """By name, pairs of blocks of those that one process can switch, one after the other."""
        now = self._now
        group = [x for x in those if x.change.toggles and not x.change.alone and not x.burst]
        wanted = [one for each in group for one in each.wanted()]
        changes = (*(each for each in now.changes if each not in wanted), *wanted)
        left_s = now.left_s() - now.lent_s(changes)
        fitting = [look for look in LOOKS if costs.each_s(len(group), look) <= left_s]
        whole = costs.length is None and costs.has_blocks(switched=True)  # as far as is known
        if len(group) < 2 or not whole or not fitting:
            return {}
        names = [label(each) for each in wanted]
        self._listener.doing(f"all that is kept, without each of {', '.join(names)}")
        toggle = replace(costs.toggle, changes=len(wanted), pairs=fitting[-1])
        try:
            found = now.track.each(changes, toggle)
        except RunError:
            return {}
        both = zip(wanted, found, strict=True)
        return {each.name: times for each, times in both if len(times.before) >= FEWEST}

    def _left_out(self, candidate: Candidate, others: Changes) -> Pairs[float] | None:
        """Pairs without and with it; none without room, or where the others need it to run."""
        now, (wanted,) = self._now, candidate.wanted()
        if now.left_s() - now.lent_s((*others, wanted)) < now.costs.timing_s(candidate):
            name = label(wanted)
            self.found = self.found.noted(f"{name} was not left out once more, since {SPENT}")
            return None
        self._listener.doing(f"all that is kept, without {label(wanted)}")
        try:
            return timed(now, candidate, others, clear)
        except RunError:
            return None

    def _calmest(self, costs: Costs) -> Costs:
        """The longest blocks that noise asks for: what drowned in shorter ones is seen in these."""
        return next(costs.calmer(self._now.base.noise), costs)

    def _holds(self, others: Changes) -> bool:
        """Whether the numbers hold without a passenger: the others were tried on top of it."""
        track = self._now.track
        try:
            checked = track.check(others, new=len(others))
            return not (track.over_seeds(others) if checked.needs_seeds else checked).refused
        except RunError:
            return False

    def _told(self, name: str, step: Comparison) -> None:
        trials = _without(name, step, self.found.trials, self._now.changes)
        self.found = replace(self.found, trials=trials, kept=self._now.changes)
        self._listener.tried(next(each for each in trials if each.change == name))


def _without(
    name: str, step: Comparison, trials: Iterable[Trial], kept: Changes
) -> tuple[Trial, ...]:
    """The trials once a passenger is gone, in which it was kept alone or together with others."""
    left = set(map(label, kept))

    def told(trial: Trial) -> Trial:
        if trial.change == name and trial.verdict in {"kept", "noisy"}:
            return replace(trial, verdict="not-faster", step=step, note=PASSENGER)
        members = trial.change.split(JOIN)
        if trial.verdict != "kept" or name not in members:
            return trial
        gone = [each for each in members if each not in left]
        if len(gone) == len(members):
            return replace(trial, verdict="not-faster", note=PASSENGER)
        return replace(trial, note=f"then without {', '.join(gone)}: {PASSENGER}")

    return tuple(map(told, trials))
