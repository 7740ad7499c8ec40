"""The pit stop: a first run, what to try, the search, what came of it."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pitstop.tune.changes
from pitstop.compare.pairs import FEWEST
from pitstop.compare.quantities import Quantity, Sample, metric_name, own_metric
from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Machine
from pitstop.core.report import Report
from pitstop.core.secrets import masked_words
from pitstop.core.units import count, minutes
from pitstop.diagnose.recording import Recording
from pitstop.profile import runs
from pitstop.tune import budget, session, vary
from pitstop.tune.budget import Costs
from pitstop.tune.busy import busy
from pitstop.tune.candidates import LAST, Candidate, Candidates, Choice, choose, facts_of
from pitstop.tune.change import Change, load_changes, load_plugins
from pitstop.tune.first_run import PROFILE, Diagnose, first_run, look_closely
from pitstop.tune.found import Asked, Found, Listener, leading
from pitstop.tune.journal import Journal
from pitstop.tune.patch import write_patch
from pitstop.tune.plan import Plan
from pitstop.tune.processes import Course, Processes
from pitstop.tune.screen import Screen
from pitstop.tune.search import Search
from pitstop.tune.seen import own_precision
from pitstop.tune.session import Session
from pitstop.tune.sources import digests
from pitstop.tune.story import About, proved, tell, unfinished
from pitstop.tune.track import RunError
from pitstop.tune.trials import COMPILED
from pitstop.tune.tuned import Origin, write_tuned
from pitstop.tune.turns import clock

UNEVEN = 1.5  # times the median: so much longer than the usual step is the mean one only in bursts
TUNED = "tuned.toml"
PATCH = "tuned.patch"
SHELF = "held"  # the runs that others are held against
SHUFFLES = (
    "loader in the source: workers that live on draw less: a shuffled order differs from epoch 2"
)


@dataclass(frozen=True, slots=True)
class Result:
    """The report, and whether Ctrl-C ended it early."""

    report: Report
    interrupted: bool = False
    unfinished: bool = False  # a search that is resumed has something to do


def pit_stop(
    asked: Session, folder: Path, tuned: Path, diagnose: Diagnose, screen: Screen
) -> Result:
    """All of it. ``folder`` is the search's own; what is kept is written to ``tuned``."""
    ends_s = clock() + 60 * asked.budget_minutes
    changes, problems = _changes()
    for line in filter(None, (*problems, busy())):
        screen.say(line)
    profile, costs = first_run(asked, folder, diagnose, screen)
    costs = replace(costs, timed=asked.goal == "time")
    untouched = profile.ranks[0]
    session.check_source(folder, digests(asked.words, untouched, Path.cwd()))
    with tempfile.TemporaryDirectory(prefix="pitstop-tune-") as place:
        course = Course(
            asked.words,
            Path(place),
            changes,
            costs,
            ends_s,
            tuple(quantities(asked)),
            asked.in_place,
            own_precision(untouched),
            (untouched.step_kind, untouched.step_events),
            folder / COMPILED,
            folder / SHELF,
            runs.about(folder / PROFILE),
        )
        if asked.vary:
            result = _sweep(asked, course, profile, screen)
        else:
            result = _search(asked, course, folder, tuned, profile, screen)
    if not result.unfinished:
        for each in (COMPILED, SHELF):
            shutil.rmtree(folder / each, ignore_errors=True)
    return result


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
    low = {metric_name(name) for name in asked.lower_better}
    if unknown := low - {metric_name(pattern) for pattern in asked.metrics}:
        raise PitstopError(f"--lower-better {min(unknown)}: no --metric has this name")
    return [own_metric(pattern, metric_name(pattern) in low) for pattern in asked.metrics]


def _changes() -> tuple[dict[str, Change], tuple[str, ...]]:
    """All changes by name, and a line for each plugin that is broken."""
    plugins = load_plugins()
    ours = load_changes(pitstop.tune.changes)
    return {each.name: each for each in (*plugins.changes, *ours)}, plugins.problems


def _search(
    asked: Session, course: Course, folder: Path, tuned: Path, profile: Report, screen: Screen
) -> Result:
    chosen = _chosen(asked, profile, list(course.changes.values()))
    track = Journal(Processes(course, screen.running), folder)
    screen.say(expected(chosen.chosen, course.costs, track.left_s(), track.known_s))
    wishes = Asked(asked.goal, _limit_bytes(profile), course.metrics)
    listener = Listener(screen.doing, screen.tried)
    try:
        found = Search(track, course.costs, wishes, listener).run(chosen.chosen)
    except RunError as error:
        raise PitstopError(f"the untouched script: {error.note}") from None
    written = _kept(asked, folder, tuned, found, profile)
    patch = tuned.with_suffix(".patch")
    if written and patch.exists() and session.wrote(folder, patch):
        patch.unlink()  # of what was kept before the search was resumed
    patched = tuple(_patched(asked, patch, found, profile)) if written else ()
    for result in (tuned, patch) if written else ():
        session.remember(folder, result)
    about = About(
        asked.name,
        asked.goal,
        shlex.join(masked_words(asked.typed)),
        written,
        _after(asked, course, found, profile, screen),
        (*patched, *chosen.left_out),
    )
    return Result(tell(profile, found, about), found.interrupted, unfinished(found))


def _chosen(asked: Session, profile: Report, changes: Sequence[Change]) -> Candidates:
    cores = profile.machine.cores if profile.machine else 1
    choice = Choice(asked.goal, asked.only, asked.skip, asked.training_changes)
    return choose(changes, profile.findings, facts_of(profile.ranks[0], cores), choice)


def expected(
    candidates: Sequence[Candidate], costs: Costs, left_s: float, known_s: float = 0.0
) -> str:
    """What is going to be done, and how long that takes; no room for any of it is an error.

    Of what is left, so many seconds are those of runs that a resumed search knows already.
    """
    chosen = _within(costs, candidates, left_s) or _within(costs.warm, candidates, left_s)
    if candidates and not chosen:
        cheapest = min((each.first(1) for each in candidates), key=costs.candidate_s)
        least_s = costs.null_s + costs.candidate_s(cheapest) + costs.reserve_s(cheapest)
        raise PitstopError(
            f"{minutes(left_s - known_s)} are left of the budget, too few for any change: "
            f"{cheapest.change.name} alone takes about {minutes(least_s)}; "
            f"give --budget {least_s / 60 + 2:.0f}, or fewer --steps"
        )
    found = budget.estimate(costs, chosen)
    compiles = ", compiling not counted" if any(each.change.name == LAST for each in chosen) else ""
    lines = [
        f"to try: {_names(chosen) or 'nothing'}",
        f"{found.fewest_runs} to {found.most_runs} runs of {costs.steps} steps at most, about "
        f"{minutes(found.least_s)} to {minutes(found.most_s)}{compiles} (left of the budget: "
        f"{minutes(left_s - known_s)}); Ctrl-C gives what is proved by then",
    ]
    if known_s:
        lines.append(f"{minutes(known_s)} of that are done already, and answered from the disk")
    names = {each.change.name for each in chosen}
    if rest := [each for each in candidates if each.change.name not in names]:
        lines.append(f"if time is left, which --budget gives: {_names(rest)}")
    return "\n".join(lines)


def _within(costs: Costs, candidates: Sequence[Candidate], left_s: float) -> list[Candidate]:
    """What there is room for beside the untouched runs."""
    room_s = left_s - costs.null_s
    return budget.within(costs, candidates, lambda *tried: room_s - costs.reserve_s(*tried))


def _names(candidates: Sequence[Candidate]) -> str:
    return ", ".join(each.change.name for each in candidates)


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
    if not found.kept or found.interrupted or left_s < course.costs.run_s:
        return None
    screen.doing("one more look at the step, with all that is kept")
    try:
        where = course.folder / "after"
        run = look_closely(asked, Plan(found.kept), where, left_s, course.compiled)
    except KeyboardInterrupt:
        return None  # all else is known by now
    if run.ending.error or not run.evidence.steady or _in_bursts(run.evidence):
        return None
    return Recording(run.recording.evidences, profile.machine or Machine()).ledger


def _in_bursts(evidence: Evidence) -> bool:
    """Whether steps come in bursts, as of workers that are too slow: the usual step is none."""
    return evidence.mean_ms("total_ms") > UNEVEN * evidence.median_ms()


def _kept(asked: Session, folder: Path, tuned: Path, found: Found, profile: Report) -> str:
    """Write what was kept; a search that was ended keeps it to itself, since it may go on."""
    if not proved(found, asked.goal):
        return ""
    machine = profile.machine or Machine()
    torch = machine.package("torch")
    origin = Origin(
        shlex.join(masked_words(asked.typed)),
        runs.now(),
        machine.gpus[0].name if machine.gpus else f"{machine.cpu}, {count(machine.cores, 'core')}",
        torch.version if torch else "",
    )
    proof = leading(found, asked.goal) if found.proof else None
    write_tuned(folder / TUNED if found.interrupted else tuned, found.kept, proof, origin)
    return "" if found.interrupted else str(tuned)


def _patched(asked: Session, target: Path, found: Found, profile: Report) -> Iterator[str]:
    """Write the diff that makes it permanent; say what is in it, and what has no place there."""
    here = Path.cwd()
    patch = write_patch(found.kept, profile.ranks[0], asked.words, here, target, force=True)
    if patch.text:
        apply = f"git apply {target}"
        if patch.root != here:
            apply = shlex.join(["git", "-C", str(patch.root), "apply", str(target.resolve())])
        yield f"{apply} writes into the source: {', '.join(patch.placed)}"
    if "loader" in {each.partition(" ")[0] for each in patch.placed}:
        yield SHUFFLES
    for change, why in patch.unplaced:
        in_part = (
            "is in the patch in part" if change in patch.placed else "has no place in the source"
        )
        yield f"{change} {in_part}: {why}"


def _sweep(asked: Session, course: Course, profile: Report, screen: Screen) -> Result:
    """Values of an option of the script's own; nothing is kept."""
    wanted = vary.others(vary.parse(asked.vary), asked.words)
    untouched = Processes(course)
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
        return Processes(replace(course, words=tuple(words))).sample(())

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
