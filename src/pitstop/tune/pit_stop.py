"""The pit stop: a first run, what to try, the search, what came of it."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pitstop.tune.changes
from pitstop.compare.pairs import FEWEST
from pitstop.compare.quantities import Quantity, Sample, metric_name, own_metric
from pitstop.core.errors import PitstopError
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Machine
from pitstop.core.report import Report
from pitstop.core.secrets import masked_words
from pitstop.core.units import count, minutes
from pitstop.diagnose.recording import Recording
from pitstop.profile.read import runs
from pitstop.tune import vary
from pitstop.tune.bench.bench import LiveBench, Pace
from pitstop.tune.bench.process import Start
from pitstop.tune.bench.questions import CALL, STEP, BenchPlan
from pitstop.tune.change import Change, change_plugins, load_changes
from pitstop.tune.checked import RunError
from pitstop.tune.first_run import PROFILE, first_run, look_closely
from pitstop.tune.found import Asked, Edits, Found, Listener
from pitstop.tune.handout import Handout, patched
from pitstop.tune.left_out.proved import proved_edits
from pitstop.tune.plan import Plan, Wanted
from pitstop.tune.report import About, build_report
from pitstop.tune.ruled_out import own_precision, steps_of_epoch
from pitstop.tune.runs.busy import busy
from pitstop.tune.runs.costs import Costs
from pitstop.tune.runs.fresh import Course, FreshRuns
from pitstop.tune.runs.machine_lock import clock
from pitstop.tune.runs.trials import COMPILED
from pitstop.tune.sandbox import folders
from pitstop.tune.screen import Screen
from pitstop.tune.search.order import Candidate, Candidates, Choice, choose, facts_of
from pitstop.tune.search.search import Search
from pitstop.tune.session import Session

WAITS = 0.2  # of the step: so long a wait for data hides what other changes bring
SETTLING = 8  # steps in which graphs are captured and code is compiled
ALIKE = 1.3  # times as long: a look whose steps take longer was disturbed, and tells of that
UNLIKE = "the last look's steps took another time than the proof's: where they went is not shown"
TUNED = "tuned.toml"
PATCH = "tuned.patch"


@dataclass(frozen=True, slots=True)
class Result:
    """The report, and whether Ctrl-C ended it early."""

    report: Report
    interrupted: bool = False


def pit_stop(asked: Session, folder: Path, tuned: Path, screen: Screen) -> Result:
    """All of it. ``folder`` is the search's own; what is kept is written to ``tuned``."""
    ends_s = clock() + 60 * asked.budget_minutes
    changes, problems = _changes()
    for line in filter(None, (*problems, busy())):
        screen.say(line)
    with ended_as_by_ctrl_c():
        screen.begin(ends_s)
        profile, costs = first_run(asked, folder, screen)
        with folders.temporary(folders.SEARCH) as place:
            course = _course(asked, profile, costs, changes, ends_s, folder, place)
            if asked.vary:
                return _sweep(asked, course, profile, screen)
            return _search(asked, course, tuned, profile, screen)


def check(asked: Session) -> None:
    """What cannot be understood is said before anything runs."""
    quantities(asked)
    if asked.vary:
        vary.parse(asked.vary)
    known = _changes()[0]
    for name in (*asked.only, *asked.skip):
        if name not in known:
            raise PitstopError(f"{name}: no such change; choose from {', '.join(sorted(known))}")


def quantities(asked: Session) -> list[Quantity]:
    """The user's own metrics."""
    return own_quantities(asked.metrics, asked.lower_better)


def own_quantities(patterns: Sequence[str], lower_better: Sequence[str]) -> list[Quantity]:
    """Metrics as they were typed."""
    low = {metric_name(name) for name in lower_better}
    if unknown := low - {metric_name(pattern) for pattern in patterns}:
        raise PitstopError(f"--lower-better {min(unknown)}: no --metric has this name")
    return [own_metric(pattern, metric_name(pattern) in low) for pattern in patterns]


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """A request to end is one for what is known by then, and no process of ours is left."""

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _changes() -> tuple[dict[str, Change], tuple[str, ...]]:
    """All changes by name, and a line for each plugin that is broken."""
    plugins = change_plugins()
    ours = load_changes(pitstop.tune.changes)
    return {each.name: each for each in (*plugins.found, *ours)}, plugins.problems


def _course(
    asked: Session,
    profile: Report,
    costs: Costs,
    changes: dict[str, Change],
    ends_s: float,
    folder: Path,
    place: Path,
) -> Course:
    untouched = profile.ranks[0]
    return Course(
        asked.words,
        place,
        changes,
        costs,
        ends_s,
        tuple(quantities(asked)),
        asked.in_place,
        own_precision(untouched),
        (untouched.step_kind, untouched.step_events),
        place / COMPILED,
        runs.about(folder / PROFILE),
    )


def _search(asked: Session, course: Course, tuned: Path, profile: Report, screen: Screen) -> Result:
    chosen = _chosen(asked, profile, list(course.changes.values()))
    screen.say(expected(chosen.chosen))
    epoch = steps_of_epoch(profile.ranks[0])
    wishes = Asked(asked.goal, _limit_bytes(profile), course.metrics, course.precision, epoch)
    bench = _bench(course, chosen.chosen, profile, screen)
    fresh = FreshRuns(course, screen.running)

    kept = Handout(asked, tuned, profile)

    def keep(found: Found) -> None:
        kept.write(found)
        screen.best(found)

    listener = Listener(screen.doing, screen.tried, keep, screen.say)
    try:
        found = Search(bench, fresh, course.changes, wishes, listener).run(chosen.chosen)
    except RunError as error:
        raise PitstopError(f"the untouched script: {error.note}") from None
    finally:
        bench.close()
    written = kept.write(found)
    edits = _proved_edits(asked, course, fresh, found, profile, screen)
    found = replace(found, patched=edits)
    wanted = (*(found.kept if written else ()), *(edits.on if edits else ()))
    said = patched(asked, tuned, wanted, profile) if wanted else ()
    after = _after(asked, course, found, profile, screen)
    alike = after is None or _is_like(after, found)
    about = About(
        asked.name,
        asked.goal,
        shlex.join(masked_words(asked.typed)),
        written,
        str(tuned.with_suffix(".patch")),
        after if alike else None,
        (*kept.problems, *said, *chosen.left_out, *(() if alike else (UNLIKE,))),
    )
    return Result(build_report(profile, found, about), found.interrupted)


def _chosen(asked: Session, profile: Report, changes: Sequence[Change]) -> Candidates:
    cores = profile.machine.cores if profile.machine else 1
    choice = Choice(asked.goal, asked.only, asked.skip, asked.training_changes)
    return choose(changes, profile.findings, facts_of(profile.ranks[0], cores), choice)


def expected(candidates: Sequence[Candidate]) -> str:
    """What is going to be tried, in that order."""
    together = [each.change.name for each in candidates if each.promising]
    rest = [each.change.name for each in candidates if each.change.name not in together]
    if not candidates:
        return "to try: nothing; no change applies to it"
    if len(together) < 2:
        return f"to try: {', '.join((*together, *rest))}"
    then = f"; then {', '.join(rest)}" if rest else ""
    return f"to try: {' + '.join(together)} together{then}"


def _bench(
    course: Course, candidates: Sequence[Candidate], profile: Report, screen: Screen
) -> LiveBench:
    """One process with all that can be switched; workers are there from its first line."""
    untouched = profile.ranks[0]
    trains = untouched.step_kind == "optimizer"
    waits = untouched.mean_ms("data_wait_ms") > WAITS * untouched.mean_ms("total_ms")
    fixed = [each.wanted()[0] for each in candidates if each.change.name == "loader" and waits]
    switched = [wanted for each in candidates if each.change.toggles for wanted in each.wanted()]
    plan = BenchPlan(tuple(switched), tuple(fixed), "", "", trains, STEP if trains else CALL)
    start = Start(
        course.words,
        course.folder / "bench",
        plan,
        course.step_ends,
        course.in_place,
        course.compiled,
        course.environment(tuple(Wanted(each.name, each.options) for each in fixed)),
    )
    pace = Pace(course.costs.start_s, course.costs.step_s)
    return LiveBench(start, pace, course.ends_s, screen.running)


def _limit_bytes(profile: Report) -> int | None:
    """The memory of the GPU that the script uses."""
    gpus = profile.machine.gpus if profile.machine else ()
    on_gpu = facts_of(profile.ranks[0], 1).device == "cuda"
    return gpus[0].memory_bytes if gpus and on_gpu else None


def _after(
    asked: Session, course: Course, found: Found, profile: Report, screen: Screen
) -> Ledger | None:
    """Where the step goes with all that was kept, from one more run."""
    left_s = course.ends_s - clock()
    needed_s = course.costs.run_s + SETTLING * course.costs.step_s
    if not found.kept or found.interrupted or left_s < needed_s:
        return None
    screen.doing("one more look at the step, with all that is kept")
    folder = course.folder / "after"
    try:
        run = look_closely(
            asked, Plan(found.kept), folder, left_s, course.compiled, settling=SETTLING
        )
    except (KeyboardInterrupt, OSError, PitstopError):
        return None  # all else is known by now
    if run.ending.error or not run.evidence.steady:
        return None
    return Recording(run.recording.evidences, profile.machine or Machine()).ledger


def _is_like(after: Ledger, found: Found) -> bool:
    """Whether the steps of the last look took about as long as those that were timed."""
    proved_ms = next((each.after for each in found.proof if each.metric == "step"), None)
    return proved_ms is None or proved_ms / ALIKE < after.step_ms < proved_ms * ALIKE


def _proved_edits(
    asked: Session,
    course: Course,
    fresh: FreshRuns,
    found: Found,
    profile: Report,
    screen: Screen,
) -> Edits | None:
    """The edits of the source that leave out what nobody needs, proved in fresh runs."""
    if found.what_if is None or found.interrupted:
        return None
    screen.doing("the source with its edits, in a tree of its own")
    try:
        return proved_edits(course, fresh, found, profile.ranks[0], asked.words)
    except (KeyboardInterrupt, OSError, PitstopError) as error:
        screen.say(f"  the patched source: {error}")
        return None


def _sweep(asked: Session, course: Course, profile: Report, screen: Screen) -> Result:
    """Values of an option of the script's own; nothing is kept."""
    wanted = vary.others(vary.parse(asked.vary), asked.words)
    untouched = FreshRuns(course, screen.running)
    pairs = vary.affordable(wanted, course.costs, untouched.left_s())
    least_s = len(wanted.values) * course.costs.pairs_s(FEWEST)
    screen.say(
        f"to try: {wanted.option} {', '.join(wanted.values)}\n{FEWEST} to {pairs} pairs of runs "
        f"for each, at least about {minutes(least_s)} (left of the budget: "
        f"{minutes(untouched.left_s())}); Ctrl-C gives what is known by then"
    )

    def sample(value: str | None) -> Sample:
        screen.doing(f"{wanted.option} {value}" if value else "the untouched command")
        if value is None:
            return untouched.sample(())
        words = vary.with_value(asked.words, wanted.option, value)
        return FreshRuns(replace(course, words=tuple(words)), screen.running).sample(())

    found = vary.sweep(wanted, sample, pairs, course.metrics)
    report = replace(
        profile,
        command="tune",
        verdict=vary.verdict(wanted, found),
        why=f"Up to {count(pairs, 'pair')} of fresh runs for each value; nothing is kept.",
        next="",
        tables=(vary.table(wanted, found),),
        notes=(),
    )
    return Result(report, any(each.interrupted for each in found))
