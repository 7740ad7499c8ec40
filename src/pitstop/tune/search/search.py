"""Search: the promising together first, as an expert would; then what each of them brings.

Nothing here starts a process. What a search may ask is a ``Bench``, for all that can be switched,
and ``Fresh`` for the rest.

**Together.** All that findings promise, switched on at once: first the numbers, then the time. What
holds and is faster is kept, and is a first result after a minute. What drifts, fails or is no gain
is tried by halves.

**One left out.** Of what was kept together each is held against the numbers for itself, at its own
precision, and the time is taken without it. What brings nothing goes; where noise hides what some
bring, these are left out together.

**The rest**, one after the other on top of what is kept, by what it may bring for each second that
it takes: what can be switched first, then what compiles, then what needs fresh runs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pitstop.compare.pairs import Pairs
from pitstop.core.trial import Reason, Trial, Verdict
from pitstop.core.units import milliseconds
from pitstop.tune.bench.bench import Bench
from pitstop.tune.change import Change
from pitstop.tune.checked import Changes, RunError, label
from pitstop.tune.found import Asked, Found, Listener
from pitstop.tune.guard.verdict import Guarded
from pitstop.tune.plan import Wanted
from pitstop.tune.runs.fresh import GUARDED, Fresh
from pitstop.tune.runs.timed import Timed, by_blocks, by_memory, by_time, crowded
from pitstop.tune.search.numbers import Numbers
from pitstop.tune.search.order import Candidate, rival, spared
from pitstop.tune.search.proof import Proof
from pitstop.tune.search.what_if import WhatIfs

BLOCKS = 40  # steps of a trial: some twins, and six pairs of blocks
WAITED = (
    "the faster step waits for data: changes were timed without that wait, the proof with it; "
    "more loader workers would show all of the gain"
)
SMALL = 0.05  # of the step: a gain below is timed twice, since some of many trials err
CLEAR = 3.0  # times the noise of its blocks: likewise
FRESH_TRIAL = 6  # runs: two for the numbers, and two pairs for the time
SHARE = 0.35  # of the time that a search has, kept back for the proof of what can be switched
FRESH_PROOF = 4  # runs: two pairs
TOGETHER = "part of what was faster together"


class Search:
    """One search. ``found`` grows with it, and is there after Ctrl-C."""

    def __init__(
        self,
        bench: Bench,
        fresh: Fresh,
        changes: Mapping[str, Change],
        asked: Asked,
        listener: Listener | None = None,
    ) -> None:
        self._bench = bench
        self._fresh = fresh
        self._asked = asked
        self._listener = listener or Listener()
        self._numbers = Numbers(bench, changes, asked.precision)
        self._changes = changes
        self._kept: list[Candidate] = []  # each with the one set of options that was kept
        self._twins = True
        self._tried: set[str] = set()
        self._begun_s = bench.left_s()
        self._candidates: Sequence[Candidate] = ()
        self._slower = 1.0  # than predicted, a machine was at compiling
        self._against_untouched: tuple[Changes, Timed] | None = None
        self.found = Found()

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """From the null to the proof; Ctrl-C ends it with what is known by then."""
        try:
            self._begin()
            candidates = self._what_if(candidates)
            self._candidates = candidates
            together = [each.alone() for each in candidates if each.promising]
            if self._asked.goal == "time":
                self._together(self._compatible(together))
            for candidate in candidates:
                if not candidate.change.toggles:
                    self._time_all()
                if candidate.change.name not in self._tried:
                    self._alone(candidate)
            self._time_all()
            if self._kept:
                proof = Proof(self._bench, self._fresh, self._asked, self.found, self._listener)
                proof.run(all(each.change.toggles for each in self._kept), self._against_untouched)
                self.found = proof.found
        except KeyboardInterrupt:
            self.found = replace(self.found, interrupted=True)
        return self.found

    def _time_all(self) -> None:
        """All that is kept against the untouched script, while the process that switches it lives.

        Then something is proved, whatever comes of fresh runs.
        """
        known = self._against_untouched and self._against_untouched[0]
        told = known == self._on and (self._bench.whole or not self._bench.waited)
        if not self._kept or told or not self._switches(self._on):
            return
        if self._bench.waited:
            self.found = self.found.noted(WAITED)
        self._bench.whole = True  # what a user gets is the whole step
        self._listener.doing("all that is kept, off and on")
        self._bench.reserve_s = 0.0
        with suppress(RunError):
            self._timed((), self._on)

    def _begin(self) -> None:
        self._listener.doing("the untouched script, each step twice: its numbers are the measure")
        try:
            null = self._numbers.begin()
            self.found = replace(self.found, null=null)
        except RunError as error:
            if error.verdict != "not-applicable" or error.hasty:
                raise
            self._twins = False
            self.found = self.found.noted(f"no twin steps: {error.note}; fresh runs tell instead")
            self._listener.say(self.found.notes[-1])

    def _what_if(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Try what is not to be kept; the others."""
        what_ifs = [each for each in candidates if each.change.when.what_if]
        if self._twins and self._asked.goal == "time":
            for each in what_ifs:
                trials = WhatIfs(self._bench, self._numbers, self._listener)
                found = trials.run(each)
                all_trials = (*self.found.trials, *trials.trials)
                self.found = replace(self.found, trials=all_trials, what_if=found)
        return [each for each in candidates if not each.change.when.what_if]

    # Together

    def _compatible(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that make sense beside each other, the most promising first."""
        chosen: list[Candidate] = []
        for each in candidates:
            if not rival(each.change, [other.change for other in chosen]):
                chosen.append(each.alone())
        return chosen

    def _together(self, group: Sequence[Candidate]) -> None:
        """All of them at once; by halves where they are refused, or no gain."""
        if len(group) < 2:
            return  # it has its turn alone, with all its options
        if not self._has_room(group[0]):
            return
        self._listener.doing(f"together: {', '.join(each.change.name for each in group)}")
        on = (*self._on, *(each.wanted()[0] for each in group))
        try:
            holds = not self._twins or self._hold(on).ok
            timed = self._timed(self._on, on) if holds else None
            if timed and timed.verdict == "kept" and not self._twins and not self._hold(on).ok:
                timed = None  # fresh runs are dear: they tell of what is faster only
        except RunError:
            timed = None
        if timed:
            self._listener.say(f"  together: {_in_words(timed)}")
        if timed and timed.verdict == "kept":
            self._keep(group, timed)
            self._leave_out(group)
        else:
            half = (len(group) + 1) // 2
            self._together(group[:half])
            self._together(group[half:])

    def _leave_out(self, group: Sequence[Candidate]) -> None:
        """What each of them brings beside the others; what brings nothing goes."""
        unsettled: list[tuple[Candidate, Trial]] = []
        for each in reversed(group):
            self._listener.doing(f"without {each.change.name}")
            trial = self._left_out(each)
            if trial.verdict == "noisy" and trial.step and (trial.step.ratio or 1.0) < 1:
                unsettled.append((each, trial))
            elif trial.verdict != "kept":
                self._drop([each])
                self._publish(trial)
            else:
                self._publish(trial)
        self._leave_out_all(unsettled)

    def _left_out(self, candidate: Candidate) -> Trial:
        wanted = candidate.wanted()[0]
        part = replace(_untimed(wanted, "kept", Guarded(True), ""), predicted=candidate.predicted)
        try:
            guarded = self._hold((wanted,)) if self._twins else Guarded(True)
            if not guarded.ok:
                return _untimed(wanted, "drifted", guarded, guarded.reason)
            if not self._has_room(candidate):
                return replace(part, note=f"{TOGETHER}; no time was left to leave it out")
            others = tuple(each for each in self._on if each != wanted)
            timed = self._timed(others, self._on)
        except RunError as error:  # it alone, or the others without it: together they run
            return replace(part, note=f"{TOGETHER}; apart: {error.note}")
        trial = by_time(label(wanted), timed, guarded, candidate.predicted)
        if trial.verdict != "not-faster":
            return trial
        note = "beside the others it brings nothing"
        return replace(trial, reason="passenger", note=note)

    def _leave_out_all(self, unsettled: Sequence[tuple[Candidate, Trial]]) -> None:
        """Gains may be too small for the noise one by one, but not all at once."""
        if not unsettled:
            return
        left = [each.wanted()[0] for each, _ in unsettled]
        others = tuple(each for each in self._on if each not in left)
        kept = False
        if len(unsettled) > 1 and self._has_room(unsettled[0][0]):
            try:
                kept = self._timed(others, self._on).verdict == "kept"
            except RunError:
                kept = False
        if not kept:
            self._drop([each for each, _ in unsettled])
        for _, trial in unsettled:
            self._publish(replace(trial, verdict="kept", note="") if kept else trial)

    # One by one

    def _alone(self, candidate: Candidate) -> None:
        """On top of what is kept; of several sets of options, each that is better than the last."""
        change = candidate.change
        why = f"{other} is kept" if (other := rival(change, self._kept_changes)) else ""
        if why := why or spared(change, self.found.trials):
            self._publish(Trial(change.name, "not-applicable", note=why))
            return
        best: Candidate | None = None
        for number, wanted in enumerate(candidate.wanted()):
            this = candidate.alone(number)
            if not self._has_room(this):
                self.found = replace(self.found, untried=(*self.found.untried, label(wanted)))
                break
            self._listener.doing(label(wanted))
            if self._beside(this, best) or self._by_itself(this, best):
                best = this

    def _by_itself(self, candidate: Candidate, instead_of: Candidate | None) -> bool:
        """Whether it is kept."""
        trial, timed = self._trial(candidate, instead_of)
        self._publish(trial)
        if trial.verdict != "kept":
            return False
        self._drop([instead_of] if instead_of else [])
        self._keep([candidate], timed)
        return True

    def _beside(self, candidate: Candidate, instead_of: Candidate | None) -> bool:
        """Whether it is kept together with what was no gain before, and may be one beside it."""
        wanted = candidate.change.when.beside
        harmless = {x.change for x in self.found.trials if x.verdict in {"not-faster", "noisy"}}
        others = [
            each.alone()
            for each in self._candidates
            if each.change.name in wanted and label(each.wanted()[0]) in harmless
        ]
        others = [each for each in others if each.change not in self._kept_changes]
        if not others or self._asked.goal != "time":
            return False
        trial, timed = self._trial(candidate, instead_of, others)
        if trial.verdict != "kept":
            return False
        self._drop([instead_of] if instead_of else [])
        self._keep([*others, candidate], timed)
        for each in others:
            name = label(each.wanted()[0])
            before = [x for x in self.found.trials if x.change != name]
            self.found = replace(self.found, trials=tuple(before))
            self._publish(Trial(name, "kept", note=f"no gain by itself, part of {trial.change}"))
        self._publish(trial)
        return True

    def _trial(
        self,
        candidate: Candidate,
        instead_of: Candidate | None,
        beside: Sequence[Candidate] = (),
    ) -> tuple[Trial, Timed | None]:
        """Its numbers, then its time against what is kept."""
        wanted, change = candidate.wanted()[0], candidate.change
        name = label(wanted)
        replaced = instead_of.wanted() if instead_of else []
        others = [other for each in beside for other in each.wanted()]
        on = (*(each for each in self._on if each not in replaced), *others, wanted)
        try:
            alone = self._twins and change.toggles and not change.when.late and len(on) > 1
            guarded = self._hold((wanted,)) if alone else Guarded(True)
            dear = change.toggles and not self._twins  # numbers by fresh runs, time in the bench
            if guarded.ok and not dear:
                guarded = self._hold(on)
            if not guarded.ok:
                return _untimed(wanted, "drifted", guarded, guarded.reason), None
            if self._asked.goal == "memory":
                return by_memory(name, *self._peaks(on), guarded, candidate.predicted), None
            timed = self._timed(self._on, on)
            trial = by_time(name, timed, guarded, candidate.predicted)
            if trial.verdict == "kept" and dear:
                guarded = self._hold(on)
                if not guarded.ok:
                    return _untimed(wanted, "drifted", guarded, guarded.reason), None
            if trial.verdict == "kept" and self._asked.limit_bytes:
                trial = crowded(trial, *self._peaks(on), self._asked.limit_bytes)
        except RunError as error:
            reason: Reason = "budget" if error.hasty else ""
            refused = _untimed(wanted, error.verdict, Guarded(False), error.note)
            return replace(refused, reason=reason), None
        return replace(trial, note=trial.note or self._paid_back(candidate, on, timed)), timed

    def _paid_back(self, candidate: Candidate, on: Changes, timed: Timed) -> str:
        """After how many steps it has gained what it takes once; the measure for what follows."""
        setup_s = self._bench.setup_s(on)
        if not candidate.setup_s or setup_s is None:
            return ""
        self._slower = setup_s / candidate.setup_s
        gained_ms = timed.before_ms - timed.after_ms
        if timed.verdict != "kept" or gained_ms <= 0:
            return ""
        steps = f"pays after {1e3 * setup_s / gained_ms:,.0f} steps"
        epoch = f", an epoch has {self._asked.epoch:,}" if self._asked.epoch else ""
        return f"its first step takes {setup_s:.0f} s: {steps}{epoch}"

    # What is kept

    @property
    def _on(self) -> Changes:
        return tuple(wanted for each in self._kept for wanted in each.wanted())

    @property
    def _kept_changes(self) -> list[Change]:
        return [each.change for each in self._kept]

    def _hold(self, on: Changes) -> Guarded:
        """Whether the numbers are those of the untouched script."""
        if self._twins and self._switches(on):
            return self._numbers.of(on)
        self._bench.close()
        checked = self._fresh.check(on)
        return Guarded(checked.refused is None, checked.drift, checked.tolerance, checked.note)

    def _switches(self, *sets: Changes) -> bool:
        """Whether what tells these sets of changes apart can be switched in one process."""
        shared = [each for each in sets[0] if all(each in one for one in sets[1:])]
        told = [each for one in sets for each in one if len(sets) < 2 or each not in shared]
        return all(self._changes[each.name].toggles for each in told)

    def _timed(self, off: Changes, on: Changes) -> Timed:
        if self._switches(off, on):
            timed = by_blocks(self._bench.blocks(off, on))
            if timed.verdict == "kept" and timed.gain < max(SMALL, CLEAR * timed.noise):
                first, again = timed.times, self._bench.blocks(off, on)
                both = Pairs((*first.before, *again.before), (*first.after, *again.after))
                timed = min(
                    by_blocks(both), by_blocks(again), key=lambda each: each.verdict == "kept"
                )
        else:
            self._bench.close()
            timed = self._fresh.times(off, on)
        if not off:
            self._against_untouched = on, timed
        return timed

    def _peaks(self, on: Changes) -> tuple[int | None, int | None]:
        """The most memory that is in use with what is kept, and with these."""
        if self._switches(self._on, on):
            return self._bench.peaks(self._on, on)
        self._bench.close()
        before, after = (self._fresh.check(each) for each in (self._on, on))
        return before.peak_bytes, after.peak_bytes

    def _keep(self, group: Sequence[Candidate], timed: Timed | None) -> None:
        """Of the step that was known, it makes as much as its blocks have told."""
        self._kept += group
        if timed:
            before_ms, now_ms = self.found.step_ms or (timed.before_ms, timed.before_ms)
            self.found = replace(
                self.found, step_ms=(before_ms, now_ms * (timed.step.ratio or 1.0))
            )
        self._changed()

    def _drop(self, group: Sequence[Candidate]) -> None:
        gone = [each.wanted()[0] for each in group]
        self._kept = [each for each in self._kept if each.wanted()[0] not in gone]
        self._changed()

    def _changed(self) -> None:
        self.found = replace(self.found, kept=self._on)
        self._listener.kept(self.found)

    def _publish(self, trial: Trial) -> None:
        self._tried.add(trial.change.partition(" ")[0])
        self.found = replace(self.found, trials=(*self.found.trials, trial))
        self._listener.tried(trial)

    def _has_room(self, candidate: Candidate) -> bool:
        """Whether there is time for it, and for a fresh run that holds all that is kept."""
        self._bench.reserve_s = self._fresh.reserve_s = self._proof_s
        return self._bench.left_s() > self._proof_s + self._needs_s(candidate)

    @property
    def _proof_s(self) -> float:
        """Two fresh runs tell the numbers of what is kept; or a few more, their time."""
        switched = self._switches(self._on)
        wanted_s = (GUARDED if switched else GUARDED + FRESH_PROOF) * self._fresh.costs.run_s
        if not self._twins:
            return 0.0  # fresh runs have told the numbers already
        return min(wanted_s, SHARE * self._begun_s) if switched else wanted_s

    def _needs_s(self, candidate: Candidate) -> float:
        """What a trial of it takes at least."""
        if candidate.change.toggles:
            return self._slower * candidate.setup_s + BLOCKS * self._bench.pace.step_s
        return FRESH_TRIAL * self._fresh.costs.run_s


def _in_words(timed: Timed) -> str:
    """The step of a group, as a line of its own."""
    before, after = milliseconds(timed.before_ms), milliseconds(timed.after_ms)
    return f"{before} to {after}, {timed.verdict}"


def _untimed(wanted: Wanted, verdict: Verdict, guarded: Guarded, note: str) -> Trial:
    return Trial(
        label(wanted), verdict, drift=guarded.drift, tolerance=guarded.tolerance, note=note
    )
