"""Examine logs: every rule over every run, the runs side by side, the answer first. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import pitstop.logs.rules
from pitstop.core.finding import Finding, Severity
from pitstop.core.report import Report, Table
from pitstop.core.rule import load_rules
from pitstop.core.units import count
from pitstop.logs.history import Logs, Run, Series
from pitstop.logs.numbers import at, finite
from pitstop.logs.tags import is_checked, is_quality, losses

RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


def examine(logs: Logs) -> Report:
    """Everything the rules say about the runs."""
    rules = load_rules(pitstop.logs.rules)
    several = len(logs.runs) > 1
    found = [
        (run, replace(finding, item=run.name if several else finding.item))
        for run in logs.runs
        for rule in rules
        for finding in rule(run)
    ]
    found.sort(key=lambda pair: (RANK[pair[1].severity], pair[1].code))
    findings = tuple(finding for _, finding in found)
    codes = {finding.code for finding in findings}
    worst = findings[0] if findings else None
    return Report(
        command="logs",
        verdict=_verdict(logs.runs, [(run.name, finding) for run, finding in found]),
        why=worst.message if worst else "",
        next=worst.cure if worst else "",
        where=worst.item if worst and several else "",
        tables=(_runs(logs.runs),),
        findings=findings,
        notes=tuple(_torn(run) for run in logs.runs if run.torn),
        skipped=logs.skipped,
        docs={rule.code: rule.doc for rule in rules if rule.code in codes},
    )


def _verdict(runs: Sequence[Run], found: Sequence[tuple[str, Finding]]) -> str:
    broken = {name for name, finding in found if finding.severity == "error"}
    several = f"{len(broken)} of {count(len(runs), 'run')}" if len(runs) > 1 else "This run"
    if broken:
        return f"{several} went wrong: {count(len(found), 'finding')}."
    if found:
        which = "These runs" if len(runs) > 1 else "This run"
        return f"{which} came through, with {count(len(found), 'warning')}."
    return f"Nothing went wrong in {count(len(runs), 'run')}, as far as the log tells."


def _torn(run: Run) -> str:
    """What is wrong with its files; one file alone gives the run its name."""
    return run.torn if run.torn.startswith(run.name) else f"{run.name}: {run.torn}"


def _runs(runs: Sequence[Run]) -> Table:
    rows = [
        (
            run.name,
            run.kind,
            at(run.last_step),
            str(len(run.series)),
            _course(losses(run)),
            _course([each for each in run.series if _of_validation(each)]),
        )
        for run in runs
    ]
    return Table("run", ("log", "last step", "tags", "loss", "validation"), tuple(rows))


def _of_validation(series: Series) -> bool:
    return is_checked(series.tag) and is_quality(series.tag)


def _course(found: Sequence[Series]) -> str:
    """First and last value of the first of these: ``0.91 to 0.03``."""
    values = finite(found[0].values) if found else []
    if not values:
        return "n/a"
    end = found[0].values[-1]
    return f"{found[0].tag} {values[0]:.3g} to {end:.3g}"
