"""GitHub: workflow commands that put findings beside the lines of a pull request."""

from pitstop.core.finding import Finding
from pitstop.core.printable import printable_value
from pitstop.core.report import Report

SUFFIX = ".annotations"
MARK = "::debug::pitstop "  # in what was written by this
LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """One ``::warning file=...`` line per finding, then the verdict for the log."""
    report = printable_value(report)
    lines = [f"{MARK}{report.command}"]  # which a log hides
    lines += [_line(finding) for finding in report.findings]
    lines += [f"skipped: {line}" for line in report.skipped]
    return "\n".join([*lines, report.verdict]) + "\n"


def _line(finding: Finding) -> str:
    properties = {"title": f"{finding.code} {finding.rule}".strip()}
    span = finding.span
    message = finding.message if span else f"{finding.item}: {finding.message}"
    if span is not None and span.cell:  # GitHub shows the file of a notebook, which has other lines
        properties |= {"file": span.path}
        message = f"cell {span.cell}, line {span.line}: {message}"
    elif span is not None:
        properties |= {"file": span.path, "line": str(span.line), "col": str(span.column)}
        properties |= {"endLine": str(span.end_line)}
        if span.line == span.end_line:  # GitHub refuses a column on another line
            properties |= {"endColumn": str(span.end_column)}
    pairs = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
    return f"::{LEVELS[finding.severity]} {pairs}::{_escape(message)}"


def _escape(text: str, also: str = "") -> str:
    """What would end the line or the property, written as GitHub reads it back."""
    for character in f"%\r\n{also}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
