"""Laps: the time of one candidate on top of all that is kept, and the verdict on it."""

import math
from dataclasses import replace
from statistics import median

from pitstop.compare import pairs
from pitstop.compare.pairs import Pairs
from pitstop.core.machine import BUSY
from pitstop.core.trial import Trial, Verdict
from pitstop.tune import weigh
from pitstop.tune.candidates import Candidate
from pitstop.tune.looks import EARLIEST, clear_or_hopeless
from pitstop.tune.plan import Wanted
from pitstop.tune.proof import SPENT
from pitstop.tune.standing import Standing
from pitstop.tune.timed import Settled, in_blocks, in_pairs, mean_ms
from pitstop.tune.track import LEAST_PATIENCE, UNTIMED, Changes, Checked, RunError, label

HOPELESS = 1.3  # times as long as its neighbours, or what noise explains twice over: no pairs then
DISTURBED = 1.5  # times as long as in runs before: somebody else uses the cores
SLOW_START = 0.1  # of a run: what first steps take more than that is no noise
TOO_SHORT = (
    "the script ends before enough blocks were timed, and the budget has no room for more runs"
)


def first_run(standing: Standing, candidate: Candidate, wanted: Wanted) -> Checked:
    """Its numbers, and its time where the run can go on to tell that."""
    costs = standing.costs.settled(candidate)
    goes_on = standing.goes_on(candidate)
    toggle = costs.first_look(standing.spare_s(candidate)) if goes_on else None
    try:
        more_s = costs.blocks_s(toggle.pairs) - costs.begin_s if toggle else 0.0
        return standing.track.check(
            (*standing.changes, wanted),
            toggle,
            lambda: max(LEAST_PATIENCE * (costs.run_s + more_s), standing.patience_s(candidate)),
        )
    except RunError as error:
        return Checked(error.verdict, error.note)


def weighed(standing: Standing, candidate: Candidate, wanted: Wanted, checked: Checked) -> Trial:
    """The verdict on a change whose numbers hold, as far as one run can tell."""
    if standing.asked.goal == "memory":
        verdict, note = weigh.by_memory(standing.base, checked)
        return told(standing, candidate, wanted, verdict, checked, note)
    try:
        if not checked.times.before and _hopeless(standing, checked):
            note = "much slower in its first run than the runs around it"
            return told(standing, candidate, wanted, "not-faster", checked, note)
        if _too_slow_to_start(standing, candidate, checked):
            later_s = standing.slower_start_s(checked)
            note = f"no room in the budget for its pairs: each run starts {later_s:.0f} s later"
            return told(standing, candidate, wanted, "not-applicable", checked, note)
        times = timed(standing, candidate, standing.changes, clear_or_hopeless, checked.times)
    except RunError as error:
        return told(standing, candidate, wanted, error.verdict, checked, error.note)
    limit, name = standing.asked.limit_bytes, label(wanted)
    trial = weigh.by_time(name, standing.base, checked, times, limit)
    disturbed = checked.others >= BUSY or _disturbed(standing, times)
    standing.pace_ms = min(standing.pace_ms, median(times.before))
    if candidate.change.when.quiet and trial.verdict == "kept" and disturbed:
        note = "others use the machine, and it may pay by the cores that they leave"
        trial = replace(trial, verdict="noisy", note=note)
    return replace(trial, predicted=candidate.predicted)


def timed(
    standing: Standing,
    candidate: Candidate,
    others: Changes,
    settled: Settled,
    known: Pairs[float] = UNTIMED,
) -> Pairs[float]:
    """Pairs without and with a change, as many as it takes or time allows.

    ``settled`` ends pairs of fresh runs; blocks end by looks of their own.
    """
    (wanted,) = candidate.wanted()
    costs, left_s = standing.costs.settled(candidate), standing.left_s(candidate)
    short = costs.length is not None and len(known.before) < pairs.FEWEST
    if short and candidate.change.toggles and left_s < costs.timing_s(candidate):
        raise RunError("not-applicable", TOO_SHORT)
    if costs.has_blocks(candidate.change.toggles):
        spare_s = standing.spare_s(candidate)
        looks = costs.looks(spare_s, toggles=True, known=len(known.before))
        if (standing.later or standing.drowned) and not candidate.change.alone:
            looks = looks[:1]  # a closer one comes when all that drowned is looked at together
        changes = (*others, wanted)
        try:
            found = in_blocks(standing.track, changes, costs, looks, known)
        except RunError as error:
            if not _cannot_be_switched(candidate, error):
                raise
            return timed(standing, standing.unswitched(candidate), others, settled)
        if len(found.before) >= pairs.FEWEST:
            return found
        new = max(0, len(found.before) - len(known.before) // 2 * 2)
        standing.ended_early(costs.toggle, new)
        return timed(standing, candidate, others, settled, found)
    if candidate.change.name in standing.fresh and left_s < costs.timing_s(candidate):
        raise RunError("not-applicable", f"not timed, since {SPENT}")
    looks = costs.looks(standing.spare_s(candidate), toggles=False)
    return in_pairs(standing.track, wanted, others, (EARLIEST, *looks), settled)


def told(
    standing: Standing,
    candidate: Candidate,
    wanted: Wanted,
    verdict: Verdict,
    checked: Checked,
    note: str,
) -> Trial:
    """What became of a candidate that was not timed."""
    trial = weigh.trial(label(wanted), verdict, standing.base, checked, note)
    return replace(trial, predicted=candidate.predicted)


def _disturbed(standing: Standing, times: Pairs[float]) -> bool:
    """Whether steps without a change took far longer than those of runs before it."""
    first_ms = min(1e3 * standing.costs.step_s, standing.untouched.step_ms or math.inf)
    return median(times.before) > DISTURBED * min(first_ms, standing.pace_ms)


def _hopeless(standing: Standing, checked: Checked) -> bool:
    """Whether it is far slower than its neighbours in time, the run before and one after."""
    before, own = standing.base.step_ms, checked.step_ms
    if own is not None and standing.base.batch and checked.batch:
        own *= standing.base.batch / checked.batch  # for as much work
    times = max(HOPELESS, (1 + standing.untouched.apart) ** 2)
    if before is None or own is None or own < times * before:
        return False
    return own > times * mean_ms(standing.track.sample(standing.changes))


def _too_slow_to_start(standing: Standing, candidate: Candidate, checked: Checked) -> bool:
    """Whether pairs of fresh runs with it, and a proof of more than it, have no room."""
    later_s = standing.slower_start_s(checked)
    slow = later_s > SLOW_START * standing.costs.run_s
    if not slow or standing.costs.settled(candidate).has_blocks(candidate.change.toggles):
        return False
    times_s = standing.costs.with_compiling(later_s).pairs_s(pairs.FEWEST)
    return times_s * (2 if standing.kept else 1) > standing.track.left_s()


def _cannot_be_switched(candidate: Candidate, error: RunError) -> bool:
    """Whether a change that held in its first run declines where it is to be switched."""
    return candidate.change.alone and error.verdict == "not-applicable" and not error.hasty
