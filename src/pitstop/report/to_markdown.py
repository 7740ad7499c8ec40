"""Markdown: the report as a comment in an issue or pull request would hold it."""

from collections.abc import Iterator, Sequence

from pitstop.core.ledger import Ledger
from pitstop.core.printable import printable
from pitstop.core.report import Report
from pitstop.core.units import milliseconds
from pitstop.report.waterfall import dearest, with_second_column
from pitstop.report.wording import (
    TRIED,
    closing,
    compared,
    comparison_row,
    headline,
    place,
    remarks,
    stake,
    trial_row,
)

SUFFIX = ".md"
MARK = "### pitstop "  # in what was written by this


def render(report: Report) -> str:
    """The report as GitHub-flavoured Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"### pitstop {report.command}"
    yield ""
    for label, text in headline(report):
        yield f"**{label}** {_inline(text)}  "
    yield from _checks(report)
    yield from _trials(report)
    yield from _table(compared(report), [comparison_row(each) for each in report.comparisons])
    for table in report.tables:
        yield from _table((table.title, *table.columns), table.rows)
    yield from _ledger(report.ledger, report.after) if report.ledger else ()
    yield from _findings(report)
    if remarks(report):
        yield from ("", *(f"- {_inline(line)}" for line in remarks(report)))
    if closing(report):
        yield from ("", closing(report))


def _checks(report: Report) -> Iterator[str]:
    rows = [(check.status, check.item, check.value, check.cure) for check in report.checks]
    yield from _table(("", "item", "value", "cure"), rows)


def _ledger(ledger: Ledger, after: Ledger | None) -> Iterator[str]:
    """The waterfall; of a tuned script before and after."""
    rows = [
        (bar.label, milliseconds(bar.ms), second, dearest(bar))
        for bar, second in with_second_column(ledger, after)
    ]
    times = ("untouched", "tuned") if after else ("time", "share")
    if after:
        rows.append(("step", milliseconds(ledger.step_ms), milliseconds(after.step_ms), ""))
    yield from _table(("where the step goes", *times, "most of it"), rows)


def _findings(report: Report) -> Iterator[str]:
    rows = [
        (finding.code, place(finding), finding.message, stake(finding) or "n/a")
        for finding in report.findings
    ]
    yield from _table(("rule", "where", "what", "costs"), rows)


def _trials(report: Report) -> Iterator[str]:
    yield from _table(TRIED, [trial_row(trial) for trial in report.trials])


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield _row(titles)
    yield _row(("---",) * len(titles))
    yield from (_row([_inline(cell) for cell in row]) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inline(text: str) -> str:
    """Text that cannot break out of its cell or turn into markup."""
    flat = printable(" ".join(text.split()))
    for character in "\\`*_<>|[]":
        flat = flat.replace(character, f"\\{character}")
    return flat
