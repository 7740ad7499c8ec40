"""Search: try one change after the other on top of those kept, and prove the sum of them.

Nothing here starts a process. What a search may ask of the script is the ``Track``; given the same
answers it takes the same decisions, so it is tested with a simulated script, and a search that was
interrupted goes on by being given the answers of before.

**Numbers first.** A candidate runs once in a fresh process, and the numbers of that run are held
against those of the untouched script. What fails, runs out of memory or drifts ends there.

**Then time**, in pairs that alternate, as ``compare.pairs`` has it: blocks of steps inside one
process where the change can be switched, else fresh processes. The run whose numbers count goes on
in blocks where it can: scripts may take a minute to start. What is better beyond the noise is
kept, what is far from that is given up early. What took much longer in its first run than the runs
before and after it is spared the pairs.

**Once more.** Gains may be too small for the noise one by one, but not all at once: what seemed
faster and drowned is tried again, all of it together, in longer blocks where single steps are
noisy. What findings had promised has its second chance before what they had not is tried at all;
everything has it before what compiles, unless that was promised and has no room behind it.

**Passengers.** A change may have been kept for what a later one does as well, or along with others.
Each is left out once more, and goes if it no longer helps.

**Proof.** Fresh processes again: the untouched script against all that was kept. They lie far apart
in time: where the first six pairs are not clear, or the budget has no room for them, and all that
was kept can be switched, blocks of steps with all of it off and on decide.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.core.comparison import Comparison
from pitstop.core.trial import Trial, Verdict
from pitstop.tune import budget, weigh
from pitstop.tune.budget import Costs
from pitstop.tune.candidates import LATE, Candidate, rival, spared
from pitstop.tune.found import Asked, Found, Listener
from pitstop.tune.looks import EARLIEST, clear, clear_or_hopeless, compared
from pitstop.tune.plan import Toggle, Wanted
from pitstop.tune.proof import SPENT, Proof
from pitstop.tune.seen import WAITS
from pitstop.tune.timed import Settled, in_blocks, in_pairs, mean_ms
from pitstop.tune.together import (
    ENDS_EARLY,
    Drowned,
    closest_first,
    drowned,
    told_without,
    worth_another_look,
)
from pitstop.tune.track import LEAST_PATIENCE, UNTIMED, Changes, Checked, RunError, Track, label

HOPELESS = 1.3  # times as long as its neighbours, or what noise explains twice over: no pairs then
DISTURBED = 1.5  # times as long as in the first runs: somebody else uses the cores
SLOW_START = 0.1  # of a run: what first steps take more than that is no noise
ALIKE = 1.25  # times as long a wait for data, with other workers: it is not one for them
SHARE_OF_PROMISE = 0.5  # of a gain: an option with less is not what the finding is about
TOO_SHORT = (
    "the script ends before enough blocks were timed, and the budget has no room for more runs"
)


class Search:
    """One search. ``found`` grows with it, and is there after Ctrl-C."""

    def __init__(
        self, track: Track, costs: Costs, asked: Asked, listener: Listener | None = None
    ) -> None:
        self._track = track
        self._costs = costs
        self._asked = asked
        self._listener = listener or Listener()
        self._kept: list[Candidate] = []  # each with the one set of options that was kept
        self._joined: list[Candidate] = []  # those of them that were kept together
        self._drowned: list[Drowned] = []  # what seemed faster, but was noisy
        self._again: list[Candidate] = []  # the last of them that were tried once more
        self._later: list[Candidate] = []  # those to try after this one, while there is room
        self._base = Checked()  # the last run with all that is kept
        self._fresh: set[str] = set()  # changes that turned out not to be switched in this script
        self.found = Found()

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """From the null to the proof; Ctrl-C ends it with what is known by then."""
        try:
            self._listener.doing("the untouched script, twice: its numbers are the measure")
            before_s = self._track.left_s()
            self._base = self._track.check(())
            took_s = before_s - self._track.left_s()
            self._costs = self._costs.as_seen(took_s, self._base.steps)
            self.found = replace(self.found, untouched=self._base)
            self._try_all(candidates)
            if self._asked.goal == "time":
                if name := self._try_together(self._drowned):
                    self.found = self.found.noted(f"not tried once more, since {SPENT}: {name}")
                self._drowned.clear()
                self._drop_passengers()
            if self._kept:
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
            if candidate.predicted is None or name in LATE:  # what was promised comes first
                self._later = [each.first(1) for each in self._within(rest)]
                self._try_together(
                    [each for each in self._drowned if each[0].predicted or name in LATE]
                )
            if reason := self._pointless(candidate):
                self._publish(Trial(name, "not-applicable", note=reason))
                continue
            chosen = self._within(rest)
            if not chosen or chosen[0].change != candidate.change or self._forgets(candidate):
                too_dear.append(name)
                continue
            self._listener.doing(f"{name} ({place + 1} of {len(candidates)})")
            self._later = [each.first(1) for each in chosen[1:]]
            for trial in self._trials_of(candidate, len(chosen[0].options)):
                self._publish(trial)
        self._later = []
        if too_dear:
            self.found = self.found.noted(f"not tried, since {SPENT}: {', '.join(too_dear)}")

    def _within(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that there is room for, and still a point in."""
        rest = [each for each in candidates if not self._pointless(each)]
        return budget.within(self._costs, rest, self._left_s)

    def _forgets(self, candidate: Candidate) -> bool:
        """Whether it is new to a resumed search, and takes the room of what that knows already."""
        first = candidate.first(1)
        lent_s = self._lent_s((*self._changes, *first.wanted()))
        return self._costs.candidate_s(first) > self._left_s(first) - lent_s

    def _pointless(self, candidate: Candidate) -> str:
        """Why it need not be tried after all that was; empty where it should be."""
        if other := rival(candidate.change, [each.change for each in self._kept]):
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
            if place and place < planned and self._patience_s(first) < self._costs.run_s:
                note = f"not tried, since {SPENT}"  # those before took too long
                yield self._trial(candidate, wanted, "not-applicable", Checked(), note)
                continue
            if place >= planned and not self._falls_short(candidate, fine):
                left_out.append(label(wanted))
                continue
            checked = self._checked(candidate, wanted)
            if checked.refused:
                yield self._trial(candidate, wanted, checked.refused, checked, checked.note)
            else:
                fine.append((wanted, checked))
        if left_out:
            self.found = self.found.noted(
                f"not tried, to leave other changes their time: {', '.join(left_out)}"
            )
        fine.sort(key=lambda pair: self._rank(pair[1]))
        for wanted, checked in fine[1:]:
            note = f"in its first run behind {label(fine[0][0])}"
            yield self._trial(candidate, wanted, "not-faster", checked, note)
        for wanted, checked in fine[:1]:
            yield self._decided(replace(candidate, options=(wanted.options,)), wanted, checked)

    def _has_enough(self, candidate: Candidate, fine: Sequence[tuple[Wanted, Checked]]) -> str:
        """Why another number of workers would do no better; empty where one might."""
        waited = [checked.waits for _, checked in fine]
        if not waited or not candidate.burst or self._asked.goal != "time":
            return ""
        if min(waited) <= WAITS:
            return f"data is always there with {label(fine[-1][0])}"
        if len(waited) > 1 and max(waited) < ALIKE * min(waited):
            first, other = (label(wanted) for wanted, _ in fine)
            return f"data is waited for as long with {first} as with {other}"
        return ""

    def _was_left_out(self, wanted: Wanted, fine: Sequence[tuple[Wanted, Checked]]) -> bool:
        """Whether a search that is resumed had timed another set of options without this one."""
        known = [self._track.knows((*self._changes, each)) for each, _ in fine]
        return any(known) and not self._track.knows((*self._changes, wanted))

    def _decided(self, candidate: Candidate, wanted: Wanted, checked: Checked) -> Trial:
        """Weigh a change whose numbers hold, and keep it if it is better."""
        candidate = replace(candidate, waits=checked.waits > WAITS)
        left_s = self._track.left_s()
        trial = self._weighed(candidate, wanted, checked)
        if trial.verdict == "kept":
            took_s = left_s - self._track.left_s()  # with what it had compiled before
            slower_s = self._slower_start_s(checked)
            if took_s > self._costs.begin_s:  # a process of its own, which found that compiled
                slower_s = min(slower_s, took_s - self._costs.begin_s)
            self._costs = self._costs.with_compiling(slower_s)
            self._base = checked
            if candidate.change.name in self._fresh:
                candidate = self._unswitched(candidate)
            self._kept.append(candidate)
        elif drowned(candidate, trial):
            self._drowned.append((candidate, trial))
        return trial

    def _falls_short(self, candidate: Candidate, fine: Sequence[tuple[Wanted, Checked]]) -> bool:
        """Whether no set of options brings what was promised, and there is room for another."""
        before, promised = self._base.step_ms, candidate.predicted
        if before is None or promised is None:
            return False
        enough = (1 - SHARE_OF_PROMISE * promised) * before
        if any(checked.step_ms is not None and checked.step_ms < enough for _, checked in fine):
            return False
        first = candidate.first(1)
        return self._left_s(first) - self._costs.timing_s(first) >= self._costs.run_s

    def _checked(self, candidate: Candidate, wanted: Wanted) -> Checked:
        costs = self._costs.settled(candidate)
        goes_on = self._goes_on(candidate)
        toggle = costs.first_look(self._spare_s(candidate)) if goes_on else None
        try:
            usual_s = costs.run_s + (costs.blocks_s(toggle.pairs) if toggle else 0.0)
            return self._track.check(
                (*self._changes, wanted),
                toggle,
                lambda: max(LEAST_PATIENCE * usual_s, self._patience_s(candidate)),
            )
        except RunError as error:
            return Checked(error.verdict, error.note)

    def _patience_s(self, candidate: Candidate) -> float:
        """For a candidate's numbers: all but what its time, later ones and the proof will take."""
        timing_s = 0.0 if self._goes_on(candidate) else self._costs.timing_s(candidate)
        return self._spare_s(candidate) - timing_s

    def _goes_on(self, candidate: Candidate) -> bool:
        """Whether one run can tell its numbers and its time: metrics are read at its end."""
        by_time = self._asked.goal == "time" and not self._asked.metrics
        return self._costs.goes_on(candidate) and by_time

    def _ended_early(self, toggle: Toggle, blocks: int) -> None:
        """The script has no more steps than that, and so many pairs of blocks."""
        least = self._base.steps if self._costs.length is None else 0
        self._costs = self._costs.of_length(max(toggle.length(2 * blocks) + 1, least))

    def _rank(self, checked: Checked) -> float:
        number = checked.step_ms if self._asked.goal == "time" else checked.peak_bytes
        return math.inf if number is None else number

    def _weighed(self, candidate: Candidate, wanted: Wanted, checked: Checked) -> Trial:
        """The verdict on a change whose numbers hold."""
        if self._asked.goal == "memory":
            verdict, note = weigh.by_memory(self._base, checked)
            return self._trial(candidate, wanted, verdict, checked, note)
        try:
            if not checked.times.before and self._hopeless(checked):
                note = "much slower in its first run than the runs around it"
                return self._trial(candidate, wanted, "not-faster", checked, note)
            if self._too_slow_to_start(candidate, checked):
                later_s = self._slower_start_s(checked)
                note = f"no room in the budget for its pairs: each run starts {later_s:.0f} s later"
                return self._trial(candidate, wanted, "not-applicable", checked, note)
            times = self._timed(candidate, self._changes, clear_or_hopeless, checked.times)
        except RunError as error:
            return self._trial(candidate, wanted, error.verdict, checked, error.note)
        limit, name = self._asked.limit_bytes, label(wanted)
        trial = weigh.by_time(name, self._base, checked, times, limit)
        if candidate.change.when.quiet and trial.verdict == "kept" and self._disturbed(times):
            note = "others used the machine: without it, steps took far longer than before"
            trial = replace(trial, verdict="noisy", note=note)
        return replace(trial, predicted=candidate.predicted)

    def _disturbed(self, times: Pairs[float]) -> bool:
        """Whether steps without a change took far longer than those of the first runs."""
        untouched = self.found.untouched.step_ms if self.found.untouched else None
        usual_ms = min(1e3 * self._costs.step_s, untouched or math.inf)
        return median(times.before) > DISTURBED * usual_ms

    def _hopeless(self, checked: Checked) -> bool:
        """Whether it is far slower than its neighbours in time, the run before and one after."""
        before, own = self._base.step_ms, checked.step_ms
        if own is not None and self._base.batch and checked.batch:
            own *= self._base.batch / checked.batch  # for as much work
        noise = self.found.untouched.apart if self.found.untouched else 0.0
        times = max(HOPELESS, (1 + noise) ** 2)
        if before is None or own is None or own < times * before:
            return False
        return own > times * mean_ms(self._track.sample(self._changes))

    def _slower_start_s(self, checked: Checked) -> float:
        """How much later a run with a change is at speed: it compiles, or chooses algorithms."""
        compiles_s = checked.compile_s - self._base.compile_s
        return max(0.0, compiles_s, checked.slow_s - self._base.slow_s)

    def _too_slow_to_start(self, candidate: Candidate, checked: Checked) -> bool:
        """Whether pairs of fresh runs with it, and a proof of more than it, have no room."""
        later_s = self._slower_start_s(checked)
        slow = later_s > SLOW_START * self._costs.run_s
        if not slow or self._costs.settled(candidate).has_blocks(candidate.change.toggles):
            return False
        times_s = self._costs.with_compiling(later_s).pairs_s(pairs.FEWEST)
        return times_s * (2 if self._kept else 1) > self._track.left_s()

    def _timed(
        self,
        candidate: Candidate,
        others: Changes,
        settled: Settled,
        known: Pairs[float] = UNTIMED,
    ) -> Pairs[float]:
        """Pairs without and with a change, as many as it takes or time allows.

        ``settled`` ends pairs of fresh runs; blocks end by looks of their own.
        """
        (wanted,) = candidate.wanted()
        costs, left_s = self._costs.settled(candidate), self._left_s(candidate)
        short = costs.length is not None and len(known.before) < pairs.FEWEST
        if short and candidate.change.toggles and left_s < costs.timing_s(candidate):
            raise RunError("not-applicable", TOO_SHORT)
        if costs.has_blocks(candidate.change.toggles):
            spare_s = self._spare_s(candidate)
            looks = costs.looks(spare_s, toggles=True, known=len(known.before))
            if (self._later or self._drowned) and not candidate.change.alone:
                looks = looks[:1]  # a closer one comes when all that drowned is looked at together
            changes = (*others, wanted)
            try:
                found = in_blocks(self._track, changes, costs, looks, known)
            except RunError as error:
                if not _cannot_be_switched(candidate, error):
                    raise
                return self._timed(self._unswitched(candidate), others, settled)
            if len(found.before) >= pairs.FEWEST:
                return found
            new = max(0, len(found.before) - len(known.before) // 2 * 2)
            self._ended_early(costs.toggle, new)
            return self._timed(candidate, others, settled, found)
        if candidate.change.name in self._fresh and left_s < costs.timing_s(candidate):
            raise RunError("not-applicable", f"not timed, since {SPENT}")
        looks = costs.looks(self._spare_s(candidate), toggles=False)
        return in_pairs(self._track, wanted, others, (EARLIEST, *looks), settled)

    def _unswitched(self, candidate: Candidate) -> Candidate:
        """A change that this script does not let be switched, after all."""
        self._fresh.add(candidate.change.name)
        return replace(candidate, change=replace(candidate.change, toggles=False))

    # Once more

    def _try_together(self, those: Sequence[Drowned]) -> str:
        """What drowned, in blocks as long as its noise asks for; its name where it has no room."""
        group = worth_another_look(those, self._kept)
        if not group or group == self._again:
            return ""
        timed = closest_first(self._track, self._costs, self._base.noise, group, those)
        left_s, later_s = self._left_s(*group), self._costs.candidates_s(self._later)
        promised_s = self._costs.candidates_s([each for each in self._later if each.predicted])
        fitting = [each for each in timed if each.least_s <= left_s - promised_s]
        if not fitting:
            return timed[0].name if timed else ""
        self._again = group
        self._listener.doing(f"once more: {fitting[0].name}")
        goes_on, limit = self._goes_on(group[0]), self._asked.limit_bytes
        for together in dict.fromkeys((fitting[0], fitting[-1])):
            checked, trial = together.tried(
                self._changes, self._base, limit, lambda: self._left_s(*group) - later_s, goes_on
            )
            if trial.note != ENDS_EARLY:  # before blocks of that length
                break
        if trial.verdict == "kept":
            self._costs = self._costs.with_compiling(self._slower_start_s(checked))
            self._base = checked
            self._kept += group
            self._joined += group if len(group) > 1 else []
        if trial.verdict != "noisy":  # else others may join it
            self._drowned = [each for each in self._drowned if each[0] not in group]
        if trial.step is None and len(group) == 1:
            return ""  # its first trial told more
        others = (each for each in self.found.trials if each.change != trial.change)
        self.found = replace(self.found, trials=tuple(others))
        self._publish(replace(trial, predicted=group[0].predicted if len(group) == 1 else None))
        return ""

    # Passengers

    def _drop_passengers(self) -> None:
        """Leave each out once more but the last, if that was timed on top of all others."""
        usual = self._costs
        for candidate in self._kept if self._joined[-1:] == self._kept[-1:] else self._kept[:-1]:
            (wanted,) = candidate.wanted()
            self._costs = self._calmest(usual) if candidate in self._joined else usual
            others = tuple(each for each in self._changes if each != wanted)
            if self._left_s() - self._lent_s((*others, wanted)) < self._costs.timing_s(candidate):
                self.found = self.found.noted(
                    f"{label(wanted)} was not left out once more, since {SPENT}"
                )
                continue
            self._listener.doing(f"all that is kept, without {label(wanted)}")
            try:
                step = compared(self._timed(candidate, others, clear))
            except RunError:
                continue  # the others do not run without it
            if self._costs.length is not None:  # as was learned by this
                usual = usual.of_length(self._costs.length)
            if not weigh.helps(step) and self._holds(others):
                self._kept = [each for each in self._kept if each != candidate]
                self._drop(label(wanted), step)
        self._costs = usual

    def _calmest(self, costs: Costs) -> Costs:
        """The longest blocks that noise asks for: what drowned in shorter ones is seen in these."""
        return next(costs.calmer(self._base.noise), costs)

    def _holds(self, others: Changes) -> bool:
        """Whether the numbers hold without a passenger: the others were tried on top of it."""
        try:
            return not self._track.check(others).refused
        except RunError:
            return False

    def _drop(self, name: str, step: Comparison) -> None:
        trials = told_without(name, step, self.found.trials, self._changes)
        self.found = replace(self.found, trials=trials, kept=self._changes)
        self._listener.tried(next(each for each in trials if each.change == name))

    def _prove(self) -> None:
        """The untouched script against all that was kept."""
        proof = Proof(self._track, self._costs, self._asked, self.found, self._kept)
        try:
            proof.run(self._listener)
        finally:
            self.found = proof.found

    # Bookkeeping

    @property
    def _changes(self) -> Changes:
        return tuple(wanted for candidate in self._kept for wanted in candidate.wanted())

    def _left_s(self, *more: Candidate) -> float:
        """What is left of the budget when the proof of what is kept, and of more, has its share."""
        tried = (*self._kept, *more)
        return self._track.left_s() - self._costs.reserve_s(*tried)

    def _lent_s(self, changes: Changes) -> float:
        """What of that is the time of answers on the disk, which a new question makes void."""
        return 0.0 if self._track.knows(changes) else self._track.known_s

    def _spare_s(self, candidate: Candidate) -> float:
        """What is left for one candidate when later ones have their first looks, too."""
        return self._left_s(candidate, *self._later) - self._costs.candidates_s(self._later)

    def _trial(
        self, candidate: Candidate, wanted: Wanted, verdict: Verdict, checked: Checked, note: str
    ) -> Trial:
        trial = weigh.trial(label(wanted), verdict, self._base, checked, note)
        return replace(trial, predicted=candidate.predicted)

    def _publish(self, trial: Trial) -> None:
        trials = (*self.found.trials, trial)
        self.found = replace(self.found, trials=trials, kept=self._changes)
        self._listener.tried(trial)


def _cannot_be_switched(candidate: Candidate, error: RunError) -> bool:
    """Whether a change that held in its first run declines where it is to be switched."""
    return candidate.change.alone and error.verdict == "not-applicable" and not error.hasty
