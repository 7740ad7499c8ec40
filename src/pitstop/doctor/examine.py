"""Examine a machine: run every rule, rank what they find, and put the answer first. Pure."""

import pitstop.doctor.rules
from pitstop.core.finding import Finding, Severity
from pitstop.core.machine import Machine
from pitstop.core.report import Report
from pitstop.core.rule import load_rules
from pitstop.core.units import count
from pitstop.doctor.checks import check_machine

RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


def examine(machine: Machine, skipped: tuple[str, ...] = ()) -> Report:
    """Everything the rules say about a machine; ``skipped`` is what could not be looked at."""
    rules = load_rules(pitstop.doctor.rules)
    found = [finding for rule in rules for finding in rule(machine)]
    findings = tuple(sorted(found, key=lambda each: (RANK[each.severity], each.code)))
    codes = {finding.code for finding in findings}
    worst = findings[0] if findings else None
    return Report(
        command="doctor",
        verdict=_verdict(machine, findings),
        why=_sentence(worst) if worst else "",
        next=worst.cure if worst else _next(machine),
        where=worst.item if worst else "",
        machine=machine,
        checks=check_machine(machine, findings),
        findings=findings,
        skipped=skipped,
        docs={rule.code: rule.doc for rule in rules if rule.code in codes},
    )


def healthy(report: Report) -> bool:
    """Whether nothing needs to be done: notes are worth knowing, not worth failing for."""
    return all(finding.severity == "note" for finding in report.findings)


def _verdict(machine: Machine, findings: tuple[Finding, ...]) -> str:
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    if errors:
        beside = f", {count(warnings, 'warning')} beside" if warnings else ""
        return f"This machine is not set up to run well: {count(errors, 'error')}{beside}."
    if warnings:
        return f"This machine works, but not at its best: {count(warnings, 'warning')}."
    if machine.package("torch") is None:
        return "Nothing is wrong with this machine, but torch is not installed."
    return "This machine is set up well."


def _next(machine: Machine) -> str:
    return "" if machine.package("torch") else 'pip install "pitstop[torch]"'


def _sentence(finding: Finding) -> str:
    """The message with the item in front where it does not name it itself."""
    if finding.message.startswith(finding.item):
        return f"{finding.message}."
    return f"{finding.item}: {finding.message}."
