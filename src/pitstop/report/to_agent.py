"""Agent: the report as a coding agent reads it: plain lines, the dearest first, two pages at most.

A coding agent pays for each token, and acts on what it reads first. Each finding has its place, its
cost, the most that it can bring, the cure in one sentence and the command to type next. What does
not fit is counted. JSON has everything.
"""

from collections.abc import Iterator
from dataclasses import replace

from pitstop.core.finding import Finding
from pitstop.core.printable import printable_value
from pitstop.core.report import Report
from pitstop.core.units import binary_bytes, count, milliseconds
from pitstop.report.waterfall import bars, dearest
from pitstop.report.wording import comparison_row, headline, remarks, stake, trial_row

SUFFIX = ".agent"
MARK = "pitstop-agent 1 "  # in what was written by this, with the version of the format
MOST_TOKENS = 2000  # of a report
TOKEN_CHARACTERS = 3  # at least: code and paths have shorter tokens than prose, which has four
LONGEST = 300  # characters of a line; what is longer is cut
FRAMES = ("@", "class ", "def ", "import ", "from ", "#")  # lines that hold a cure, but are none
RESERVED = 400  # characters for the last lines


def render(report: Report) -> str:
    """As many lines as the tokens allow, in the order of their worth."""
    report = replace(printable_value(report), docs=report.docs)  # whose lines are ours
    left = MOST_TOKENS * TOKEN_CHARACTERS - RESERVED
    lines, omitted = [f"{MARK}{report.command}"], 0
    for block in _blocks(report):
        text = [_cut(line) for line in block]
        left -= sum(len(line) + 1 for line in text)
        if left >= 0:
            lines += text
        else:
            omitted += 1
    return "\n".join([*lines, *(_cut(each) for each in _end(report, omitted))]) + "\n"


def _blocks(report: Report) -> Iterator[list[str]]:
    """What is shown whole or not at all."""
    yield [f"{label.lower()}: {text}" for label, text in headline(report)]
    yield from (
        [f"{each.status}: {each.item}: {each.value}{f'; cure: {each.cure}' if each.cure else ''}"]
        for each in report.checks
        if each.status in {"FAIL", "warn"}
    )
    for metric, verdict, before, after, change, interval, why in map(
        comparison_row, report.comparisons
    ):
        said = f"{metric}: {verdict}, {before} -> {after}, {change} ({interval}); {why}"
        yield [said]
    for name, verdict, before, after, gained, _, note in map(trial_row, report.trials):
        said = f"tried {name}: {verdict}, {before} -> {after}, gain {gained}; {note}"
        yield [said.removesuffix("; ")]
    if report.ledger:
        yield [
            f"step: {bar.label}: {milliseconds(bar.ms)} {dearest(bar)}".rstrip()
            for bar in bars(report.ledger)
        ]
    for number, finding in enumerate(report.findings, 1):
        yield list(_finding(number, finding, report))
    yield from ([f"note: {line}"] for line in remarks(report))


def _finding(number: int, finding: Finding, report: Report) -> Iterator[str]:
    span = finding.span
    where = span.place if span else finding.item
    sure = f"({finding.severity}, {finding.confidence})"
    yield f"{number}. {where} {finding.code} {finding.rule} {sure}"
    yield f"   what: {finding.message}"
    yield f"   cost: {_cost(finding, report)}; gain: {_bound(finding)}"
    yield f"   cure: {_cure(finding, report)}"
    yield f"   next: {_next(finding, report)}"


def _cost(finding: Finding, report: Report) -> str:
    if finding.claims:
        return f"{milliseconds(sum(row.ms for row in finding.claims))} of each step"
    if finding.saving is not None and report.ledger and finding.per == "step":
        return f"{milliseconds(finding.saving * report.ledger.step_ms)} of each step"
    return "not measured"


def _bound(finding: Finding) -> str:
    """The most that it can bring."""
    saved = f"at most {binary_bytes(finding.saved_bytes)}" if finding.saved_bytes else ""
    time = f"at most {stake(finding)}" if stake(finding) else ""
    return " and ".join(filter(None, (time, saved))) or "not known"


def _cure(finding: Finding, report: Report) -> str:
    """The fix, the cure, or what the rule's good code has and its bad code has not."""
    if finding.fix:
        return finding.fix.title
    if finding.cure:
        return finding.cure
    bad, _, good = report.docs.get(finding.code, "").partition("Bad:")[2].partition("Good:")
    known = {line.strip() for line in bad.splitlines()}
    new = [line.strip() for line in good.splitlines() if line.strip() not in known]
    new = [line for line in new if not line.startswith(FRAMES)]
    if new:
        return f"write it like `{new[0]}`"
    return f"as in the good code that pitstop explain {finding.code} shows"


def _next(finding: Finding, report: Report) -> str:
    if finding.fix and finding.fix.safe and finding.span:
        return f"pitstop scan --fix --select {finding.code} {finding.span.path}"
    if finding.changes and report.typed:
        return f"pitstop tune --only {','.join(finding.changes)} {report.typed}"
    return f"pitstop explain {finding.code}"


def _end(report: Report, omitted: int) -> Iterator[str]:
    if omitted:
        yield f"omitted: {count(omitted, 'item')} worth less; --format json has all"
    if report.typed and report.findings:
        yield f"after an edit: pitstop prove -- {report.typed}"


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
