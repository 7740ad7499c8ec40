"""Wording: how facts are put in every format that people read."""

from pitstop.core.finding import Finding
from pitstop.core.report import Report, Status
from pitstop.core.trial import Trial
from pitstop.core.units import count, milliseconds, percent

STATUSES: tuple[Status, ...] = ("ok", "warn", "FAIL", "n/a")


def headline(report: Report) -> list[tuple[str, str]]:
    """Label and text of the lines Verdict, Why, Next and Where that the report has."""
    lines = [
        ("Verdict", report.verdict),
        ("Why", report.why),
        ("Next", report.next),
        ("Where", report.where),
    ]
    return [(label, text) for label, text in lines if text]


def place(finding: Finding) -> str:
    """Where a finding is: ``path:line:column``, or the item it is about."""
    if finding.span is None:
        return finding.item
    return f"{finding.span.path}:{finding.span.line}:{finding.span.column}"


def stake(finding: Finding) -> str:
    """What a finding costs, or an empty string where nobody measured it."""
    return "" if finding.saving is None else f"{percent(finding.saving)} of each {finding.per}"


def remarks(report: Report) -> list[str]:
    """The lines below everything else: notes, then what was skipped."""
    return [*report.notes, *(f"skipped: {line}" for line in report.skipped)]


def closing(report: Report) -> str:
    """The last line: how many items were checked and how they fared."""
    if not report.checks:
        return ""
    statuses = [check.status for check in report.checks]
    counts = [f"{statuses.count(status)} {status}" for status in STATUSES if status in statuses]
    return f"{count(len(statuses), 'item')}: {', '.join(counts)}"


def trial_numbers(trial: Trial) -> tuple[str, str, str]:
    """Before, after and gain of a trial; ``n/a`` where it did not run."""
    before = trial.before.median_ms
    if trial.after is None:
        return milliseconds(before), "n/a", "n/a"
    after = trial.after.median_ms
    return milliseconds(before), milliseconds(after), percent(1 - after / before)
