"""Search: try one change after the other on top of those kept, and prove the sum of them.

Nothing here starts a process. What a search may ask of the script is the ``Track``; given the same
answers it takes the same decisions, so it is tested with a simulated script, and a search that was
interrupted goes on by being given the answers of before.

**Numbers first.** A candidate runs once in a fresh process, and the numbers of that run are held
against those of the untouched script. What fails, runs out of memory or drifts ends there. Where
random numbers fall otherwise, other seeds must tell: a few runs, once it is known to be faster.

**Then time**, in pairs that alternate, as ``compare.pairs`` has it: blocks of steps inside one
process where the change can be switched, else fresh processes. The run whose numbers count goes on
in blocks where it can: scripts may take a minute to start. What is better beyond the noise is
kept, what is far from that is given up early. What took much longer in its first run than the runs
before and after it is spared the pairs.

**Once more.** Gains may be too small for the noise one by one, but not all at once: what seemed
faster and drowned is tried again, all of it together, in longer blocks where single steps are
noisy; where they drift or fail together, by halves. They have that before what compiles is tried,
unless it promises more and has no room behind them.

**With another.** Some changes pay only with another one, as a fused GroupNorm with channels-last,
which in turn may be slower without it. Where the first was no gain it is tried once more on top of
the other, or, where that was no gain either, both are tried as one.

**Passengers.** A change may have been kept for what a later one does as well, or along with others:
each is left out once more (``passengers``).

**Proof.** Fresh processes again: the untouched script against all that was kept (``proof``).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pitstop.compare.pairs import SMALLEST
from pitstop.core.trial import Trial
from pitstop.tune import budget, weigh
from pitstop.tune.budget import Costs
from pitstop.tune.candidates import LATE, Candidate, rival, spared
from pitstop.tune.found import BEHIND, Asked, Found, Listener
from pitstop.tune.laps import first_run, told, weighed
from pitstop.tune.passengers import Passengers
from pitstop.tune.plan import Wanted
from pitstop.tune.proof import SPENT, Proof
from pitstop.tune.seen import WAITS
from pitstop.tune.standing import Standing
from pitstop.tune.together import (
    Drowned,
    Together,
    closest_first,
    drowned,
    first_look,
    seeming_gain,
    worth_another_look,
)
from pitstop.tune.track import Checked, Track, label

REFUSED = ("drifted", "failed", "out-of-memory")
NO_GAIN = ("noisy", "not-faster")
ALIKE = 1.25  # times as long a wait for data, with other workers: it is not one for them
SHARE_OF_PROMISE = 0.5  # of a gain: an option with less is not what the finding is about


class Search:
    """One search. ``found`` grows with it, and is there after Ctrl-C."""

    def __init__(
        self, track: Track, costs: Costs, asked: Asked, listener: Listener | None = None
    ) -> None:
        self._track = track
        self._asked = asked
        self._listener = listener or Listener()
        self._now = Standing(track, costs, asked)
        self._joined: list[Candidate] = []  # those that were kept together
        self._again: list[Candidate] = []  # the last of what drowned that was tried once more
        self._idle: list[Candidate] = []  # whose numbers held, or are open, and which were no gain
        self.found = Found()

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """From the null to the proof; Ctrl-C ends it with what is known by then."""
        try:
            self._listener.doing("the untouched script, twice: its numbers are the measure")
            before_s = self._track.left_s()
            self._now.base = self._now.untouched = self._track.check(())
            took_s = before_s - self._track.left_s()
            costs = self._now.costs.as_seen(took_s, self._now.base.steps)
            self._now.costs = costs.evened(self._now.base.noise)
            self.found = replace(self.found, untouched=self._now.base)
            self._try_all(candidates)
            if self._asked.goal == "time":
                if name := self._try_together(self._now.drowned):
                    self.found = self.found.noted(f"not tried once more, since {SPENT}: {name}")
                self._now.drowned.clear()
                self._drop_passengers()
            if self._now.kept:
                self._prove()
        except KeyboardInterrupt:
            self.found = replace(self.found, interrupted=True)
        return self.found

    # Candidates

    def _try_all(self, candidates: Sequence[Candidate]) -> None:
        """One after the other, as far as there is room for each with those that come after it."""
        too_dear = []
        for place, candidate in enumerate(candidates):
            name, rest = candidate.change.name, candidates[place:]
            if name in LATE:
                self._now.later = [each.first(1) for each in self._within(rest)]
                self._try_together(self._now.drowned)
            if reason := self._pointless(candidate):
                self._publish(Trial(name, "not-applicable", note=reason))
                continue
            chosen = self._within(rest)
            if not chosen or chosen[0].change != candidate.change or self._forgets(candidate):
                too_dear.append(name)
                continue
            self._listener.doing(f"{name} ({place + 1} of {len(candidates)})")
            self._now.later = [each.first(1) for each in chosen[1:]]
            for trial in self._trials_of(candidate, len(chosen[0].options)):
                self._publish(trial)
            self._now.later = [each.first(1) for each in self._within(rest[1:])]
            self._try_with_partners(candidate)
        self._now.later = []
        if too_dear:
            self.found = self.found.noted(f"not tried, since {SPENT}: {', '.join(too_dear)}")

    def _within(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that there is room for, and still a point in."""
        rest = [each for each in candidates if not self._pointless(each)]
        return budget.within(self._now.costs, rest, self._now.left_s)

    def _forgets(self, candidate: Candidate) -> bool:
        """Whether it is new to a resumed search, and takes the room of what that knows already."""
        first = candidate.first(1)
        lent_s = self._now.lent_s((*self._now.changes, *first.wanted()))
        return self._now.costs.candidate_s(first) > self._now.left_s(first) - lent_s

    def _pointless(self, candidate: Candidate) -> str:
        """Why it need not be tried after all that was; empty where it should be."""
        if other := rival(candidate.change, [each.change for each in self._now.kept]):
            return f"{other} is kept"
        return spared(candidate.change, self.found.trials)

    def _trials_of(self, candidate: Candidate, planned: int) -> Iterator[Trial]:
        """So many sets of options have their first run; the best of those that hold is timed."""
        fine: list[tuple[Wanted, Checked]] = []
        left_out, first = [], candidate.first(planned)
        for place, wanted in enumerate(candidate.wanted()):
            if enough := self._has_enough(candidate, fine):
                rest = ", ".join(map(label, candidate.wanted()[place:]))
                self.found = self.found.noted(f"not tried, since {enough}: {rest}")
                break
            if self._was_left_out(wanted, fine):
                left_out.append(label(wanted))
                continue
            if place and place < planned and self._now.patience_s(first) < self._now.costs.run_s:
                other = f"the budget has room for {label(fine[0][0])} only" if fine else SPENT
                note = f"not tried, since {other}"  # those before took too long
                yield told(self._now, candidate, wanted, "not-applicable", Checked(), note)
                continue
            if place >= planned and not self._falls_short(candidate, fine):
                left_out.append(label(wanted))
                continue
            checked = first_run(self._now, candidate, wanted)
            if checked.refused:
                yield told(self._now, candidate, wanted, checked.refused, checked, checked.note)
            else:
                fine.append((wanted, checked))
        if left_out:
            why = "to leave other changes their time" if self._now.later else f"since {SPENT}"
            self.found = self.found.noted(f"not tried, {why}: {', '.join(left_out)}")
        yield from self._best_of(candidate, sorted(fine, key=lambda pair: self._rank(pair[1])))

    def _best_of(
        self, candidate: Candidate, fine: Sequence[tuple[Wanted, Checked]]
    ) -> Iterator[Trial]:
        """The first of some sets of options is timed; the next where it is refused then."""
        for place, (best, checked) in enumerate(fine):
            alone = replace(candidate, options=(best.options,))
            if place and self._now.spare_s(alone) < self._now.costs.timing_s(alone):
                note = f"not timed, since {SPENT}"
                yield told(self._now, candidate, best, "not-applicable", checked, note)
                continue
            note = f"{BEHIND} {label(best)}"
            behind = [
                told(self._now, candidate, wanted, "not-faster", slower, note)
                for wanted, slower in fine[place + 1 :]
            ]
            trial = self._decided(alone, best, checked)
            if trial.verdict not in REFUSED:
                yield from (*behind, trial)
                break
            yield trial

    def _has_enough(self, candidate: Candidate, fine: Sequence[tuple[Wanted, Checked]]) -> str:
        """Why another number of workers would do no better; empty where one might."""
        if not fine or not candidate.burst or self._asked.goal != "time":
            return ""
        first, last = label(fine[0][0]), label(fine[-1][0])
        if min(checked.waits for _, checked in fine) <= WAITS:
            return f"data is always there with {last}"
        waited_ms = [checked.waits * (checked.step_ms or 0.0) for _, checked in fine]
        if len(fine) > 1 and max(waited_ms) < ALIKE * min(waited_ms):
            return f"data is waited for as long with {first} as with {last}"
        return ""

    def _was_left_out(self, wanted: Wanted, fine: Sequence[tuple[Wanted, Checked]]) -> bool:
        """Whether a search that is resumed had timed another set of options without this one."""
        known = [self._track.knows((*self._now.changes, each)) for each, _ in fine]
        return any(known) and not self._track.knows((*self._now.changes, wanted))

    def _decided(self, candidate: Candidate, wanted: Wanted, checked: Checked) -> Trial:
        """Weigh a change whose numbers hold so far, and keep it if it is better."""
        now, left_s = self._now, self._track.left_s()
        candidate = replace(candidate, waits=checked.waits > WAITS)
        trial = weighed(now, candidate, wanted, checked)
        took_s = left_s - self._track.left_s()  # with what it had compiled before
        trial = weigh.over_seeds(self._track, (*now.changes, wanted), checked, trial)
        if trial.verdict == "kept":
            slower_s = now.slower_start_s(checked)
            if took_s > now.costs.begin_s:  # a process of its own, which found that compiled
                slower_s = min(slower_s, took_s - now.costs.begin_s)
            if candidate.change.name in now.fresh:
                candidate = now.unswitched(candidate)
            now.keep([candidate], checked, slower_s)
        elif trial.verdict in NO_GAIN:
            self._idle.append(candidate)
        if drowned(candidate, trial):
            now.drowned.append((candidate, trial))
        return trial

    def _falls_short(self, candidate: Candidate, fine: Sequence[tuple[Wanted, Checked]]) -> bool:
        """Whether no set of options brings what was promised, and there is room for another."""
        before, promised = self._now.base.step_ms, candidate.predicted
        if before is None or promised is None:
            return False
        enough = (1 - SHARE_OF_PROMISE * promised) * before
        if any(checked.step_ms is not None and checked.step_ms < enough for _, checked in fine):
            return False
        first = candidate.first(1)
        return self._now.left_s(first) - self._now.costs.timing_s(first) >= self._now.costs.run_s

    def _rank(self, checked: Checked) -> float:
        number = checked.step_ms if self._asked.goal == "time" else checked.peak_bytes
        return math.inf if number is None else number

    # Once more

    def _try_with_partners(self, candidate: Candidate) -> None:
        """What pays only with this one: on top of it, or with it where it was no gain itself."""
        now, name = self._now, candidate.change.name
        for partner in [each for each in self._idle if name in each.change.when.pays_with]:
            own = [each for each in self._idle if each.change.name == name]
            refused = not own and name not in {each.name for each in now.changes}
            if refused or self._asked.goal != "time":
                return
            group = [*own, partner]
            together = first_look(now.track, now.costs, group, now.spare_s(*group))
            if together:
                self._as_one(group, together)

    def _try_together(self, those: Sequence[Drowned]) -> str:
        """What drowned, in blocks as long as its noise asks for; its name where it has no room."""
        now = self._now
        group = worth_another_look(those, now.kept)
        if not group or group == self._again:
            return ""
        gain = seeming_gain(group, those)
        if gain < SMALLEST:  # it would count for nothing if it were true
            return ""
        ways = closest_first(self._track, now.costs, now.base.noise, group, those)
        left_s = now.left_s(*group)
        better = [each for each in now.later if (each.predicted or 0.0) > gain]
        promised_s = now.costs.candidates_s(better)
        fitting = (each for each in ways if each.least_s <= left_s - promised_s)
        if (together := next(fitting, None)) is None:
            return ways[0].name if ways else ""
        self._again = group
        trial = self._as_one(group, together)
        if trial.verdict in REFUSED and len(group) > 1:  # some of them may hold
            half = len(group) // 2
            for part in (group[:half], group[half:]):
                self._try_together([each for each in those if each[0] in part])
        return ""

    def _as_one(self, group: list[Candidate], together: Together) -> Trial:
        """Time them together; they are kept if that is better."""
        now = self._now
        self._listener.doing(f"once more: {together.name}")
        goes_on, limit = now.goes_on(group[0]), self._asked.limit_bytes
        later_s = now.costs.candidates_s(now.later)
        checked, trial = together.tried(
            now.changes, now.base, limit, lambda: now.left_s(*group) - later_s, goes_on
        )
        if together.costs.length is not None:
            now.ends_after(together.costs.length)
        if trial.verdict == "kept":
            now.keep(group, checked, now.slower_start_s(checked))
            self._joined += group if len(group) > 1 else []
            self._idle = [each for each in self._idle if each not in group]
        if trial.verdict != "noisy" or len(group) == 1:  # else others may join them
            now.drowned = [each for each in now.drowned if each[0] not in group]
        if len(group) == 1 and drowned(group[0], trial):
            now.drowned.append((group[0], trial))
        if trial.step is None and len(group) == 1:
            return trial  # its first one told more
        others = (each for each in self.found.trials if each.change != trial.change)
        self.found = replace(self.found, trials=tuple(others))
        self._publish(replace(trial, predicted=group[0].predicted if len(group) == 1 else None))
        return trial

    # What is kept

    def _drop_passengers(self) -> None:
        passengers = Passengers(self._now, self._joined, self.found, self._listener)
        try:
            passengers.drop()
        finally:
            self.found = passengers.found

    def _prove(self) -> None:
        """The untouched script against all that was kept."""
        proof = Proof(self._track, self._now.costs, self._asked, self.found, self._now.kept)
        try:
            proof.run(self._listener)
        finally:
            self.found = proof.found

    def _publish(self, trial: Trial) -> None:
        trials = (*self.found.trials, trial)
        self.found = replace(self.found, trials=trials, kept=self._now.changes)
        self._listener.tried(trial)
