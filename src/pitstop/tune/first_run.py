"""First run: the untouched script, looked at closely; what all that follows is planned by."""

import math
from pathlib import Path
from statistics import median

from pitstop.core.errors import PitstopError
from pitstop.core.failing import going_on
from pitstop.core.report import Report
from pitstop.core.units import count
from pitstop.profile.read import runs
from pitstop.run_report import keep_surroundings, report_of
from pitstop.tune.plan import Plan
from pitstop.tune.runs import costs
from pitstop.tune.runs.costs import WARMUP, Costs
from pitstop.tune.runs.trials import COMPILED, Settings, TrialRun, run_trial
from pitstop.tune.sandbox import landlock
from pitstop.tune.sandbox.refusals import REMEDY
from pitstop.tune.sandbox.written_files import Written
from pitstop.tune.screen import Screen
from pitstop.tune.session import Session

PROFILE = "profile"  # its recording, in the folder of the search
STEPS = 14  # warm-up, undisturbed ones before and after, and the two looked at closely
INSPECTED = 2
NAMED = 5  # files said by name
ROUND = 5  # minutes, in which a budget is thought of
SHARE = 0.5  # of the budget: where the first run takes more, there is no room for others


def first_run(asked: Session, folder: Path, screen: Screen) -> tuple[Report, Costs]:
    """What is wrong with the script, and what a run costs."""
    check_that_files_are_safe(asked.in_place)
    where = folder / PROFILE
    screen.doing("the untouched script, looked at closely")
    patience_s = SHARE * 60 * asked.budget_minutes
    run = look_closely(asked, Plan(), where, patience_s, folder / COMPILED, lists_writes=True)
    check_run(run, asked.name)
    for line in _on_files(run.written, asked):
        screen.say(line)
    recorded = runs.load(where)
    with going_on(screen.say):
        keep_surroundings(where, recorded)
    return report_of(where, recorded), costs_of(run, asked.steps)


def check_that_files_are_safe(in_place: bool) -> None:
    """Where the kernel cannot refuse writes, the user has to agree to them before anything runs."""
    if (why := landlock.missing()) and not in_place:
        raise PitstopError(
            f"{why}: what the script's programs and libraries in C++ overwrite or delete in trials "
            f"cannot be held back; {REMEDY}"
        )


def look_closely(
    asked: Session,
    plan: Plan,
    folder: Path,
    patience_s: float,
    compiled: Path | None,
    lists_writes: bool = False,
    settling: int = 0,
) -> TrialRun:
    """A run with inspected steps, which tell where the time goes; so many more settle first."""
    settings = Settings(
        max(STEPS, asked.steps or 0) + settling,
        WARMUP + settling,
        INSPECTED,
        lists_writes,
        patience_s,
        in_place=asked.in_place,
        lists_writes=lists_writes,
        compiled=compiled,
    )
    return run_trial(asked.words, plan, folder, settings)


def costs_of(run: TrialRun, steps: int | None) -> Costs:
    """What lies around the steps is the start; what lies between them was inspecting, or recurs."""
    seen = run.evidence
    first, last = seen.steps[0], seen.steps[-1]
    from_first_to_last_s = last.ended_s - first.ended_s + first.total_ms / 1e3
    after_s = seen.headspace.took_s if seen.headspace else 0.0
    around_s = run.wall_s - from_first_to_last_s - after_s + seen.validation_s + seen.saving_s
    return costs.choose(around_s, seen.mean_ms("total_ms") / 1e3, steps)


def check_run(run: TrialRun, name: str) -> None:
    """Whether anything can be measured of the script at all."""
    if run.ending.timed_out:
        raise PitstopError(_too_slow(run, name))
    if run.ending.refused:
        raise PitstopError(f"{name}: {run.ending.error}")
    if run.ending.error:
        raise PitstopError(
            f"{name} did not run to its end: {run.ending.error}; make it run by itself first"
            f"{_if_programs(run.written)}{_if_cupy(run.ending.error)}"
        )
    if not run.evidence.steady:
        raise PitstopError(
            f"{name} finished {count(len(run.evidence.steps), 'step')}, none of them after "
            "warm-up: let it run for more, or mark them: `with pitstop.step(): ...`"
        )


def _too_slow(run: TrialRun, name: str) -> str:
    """What to do about a first run for which the budget has no room."""
    done = [each.total_ms / 1e3 for each in run.evidence.steps]
    minutes = run.wall_s / 60
    took = f"{name} finished {count(len(done), 'step')} in {minutes:.1f} minutes"
    usual_s = median(done[1:]) if len(done) > 1 else 0.0
    start_s = run.wall_s - len(done) * usual_s
    if start_s > run.wall_s / 2:
        return f"{took}, half of the budget: give a larger --budget, or make it start faster"
    least = 2 * minutes / SHARE
    return (
        f"{took}, of {usual_s:.1f} s each: a search takes at least {least:.0f} minutes. Give "
        f"--budget {math.ceil(least / ROUND) * ROUND} or more, or make the steps shorter for the "
        "search, as with fewer accumulated batches"
    )


def _on_files(written: Written | None, asked: Session) -> list[str]:
    """What the user should know about files that the script writes."""
    if written is None or asked.in_place:
        return []
    lines = []
    if written.redirected:
        what = count(len(written.redirected), "file")
        lines.append(f"it writes {what}, which trials do not touch: {_few(written.redirected)}")
    if written.refused:
        lines.append(f"it was refused to write {_few(written.refused)}; {REMEDY}")
    return lines


def _if_programs(written: Written | None) -> str:
    """A program that was refused to write may have kept that to itself."""
    if not (written and written.programs):
        return ""
    return (
        f", or {REMEDY}: in trials the programs that it starts ({_few(written.programs)}) may not"
    )


def _if_cupy(error: str) -> str:
    """What needs no CuPy where LDMVFI's kernel is all that it is for."""
    if "No module named 'cupy'" not in error:
        return ""
    return (
        ". Without CuPy: where LDMVFI's or EDSC's dsepconv is imported, write "
        "`from pitstop.parts import dsepconv`"
    )


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
