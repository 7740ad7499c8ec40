"""Terminal: verdict first, then the items, findings and trials, in colour where there is colour."""

import textwrap
from collections.abc import Iterable, Iterator

from rich import table as rich_table
from rich.console import Console, RenderableType
from rich.text import Text

from pitstop.core.finding import Finding
from pitstop.core.printable import printable_value
from pitstop.core.report import Report, Table
from pitstop.core.units import count
from pitstop.report.branches import tree_lines
from pitstop.report.ledger_lines import ledger_lines
from pitstop.report.shortened import cut_end
from pitstop.report.wording import (
    TRIED,
    closing,
    compared,
    comparison_row,
    first,
    headline,
    place,
    remarks,
    stake,
    trial_note,
    trial_row,
)

SUFFIX = ".txt"
MARK = "Verdict  "  # in what was written by this
STYLES = {
    "ok": "green",
    "warn": "yellow",
    "FAIL": "bold red",
    "n/a": "dim",
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
    "kept": "green",
    "what-if": "green",
    "drifted": "red",
    "failed": "red",
    "out-of-memory": "red",
    "noisy": "yellow",
    "not-applicable": "dim",
    "better": "green",
    "worse": "red",
    "inconclusive": "yellow",
}
PLAIN_WIDTH = 100  # where there is no terminal to ask
EXCERPTS = 3  # findings shown with their source; the page has them all


def render(
    report: Report, color: bool = False, width: int | None = None, brief: bool = False
) -> str:
    """The report as text; ``color`` adds ANSI sequences, ``brief`` is what fits on one screen."""
    width = width or PLAIN_WIDTH
    console = Console(
        width=width,
        force_terminal=color,
        color_system="truecolor" if color else None,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    with console.capture() as captured:
        for part in (_screen if brief else _parts)(printable_value(report), width):
            console.print(part, soft_wrap=isinstance(part, Text))  # the terminal wraps: copyable
    lines = captured.get().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _parts(report: Report, width: int) -> Iterator[RenderableType]:
    yield _headline(report)
    yield from _spaced(_checks(report), _trials(report), _comparisons(report))
    yield from _spaced(_ledger(report, width), _findings(report), _tables(report), _remarks(report))


def _screen(report: Report, width: int) -> Iterator[RenderableType]:
    """The answer, where the step goes, and what to do about it first."""
    yield _headline(report)
    findings = (_first_finding(each, width) for each in first(report))
    yield from _spaced(_ledger(report, width), *findings, _rest(report))


def _spaced(*sections: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Sections that have something to say, with an empty line before each."""
    for section in sections:
        parts = list(section)
        yield from ("", *parts) if parts else ()


def _first_finding(finding: Finding, width: int) -> Iterator[Text]:
    """How sure and how dear, what and where, its line of source, and what to do."""
    tags = ", ".join(filter(None, (finding.severity, finding.confidence, stake(finding))))
    yield Text.assemble((f"{finding.code} ", STYLES[finding.severity]), (tags, "bold"))
    said = f"{place(finding)}  {finding.message}" if place(finding) else finding.message
    yield Text(_hanging(said, "  ", width))
    for line in finding.excerpt:
        if line.startswith(">"):
            yield Text(cut_end(f"    {line}", width), style="dim")
    if finding.cure:
        yield Text(_hanging(finding.cure, "  → ", width), style="green")


def _hanging(text: str, mark: str, width: int) -> str:
    """Lines below one another behind their mark; a path is never broken, so it can be copied."""
    return textwrap.fill(
        text,
        width,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _rest(report: Report) -> Iterator[Text]:
    left = len(report.findings) - len(first(report))
    if left:
        yield Text(f"and {count(left, 'finding')} more: pitstop report last", style="dim")


def _headline(report: Report) -> RenderableType:
    grid = rich_table.Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in headline(report):
        grid.add_row(Text(label, style="bold"), text)
    return grid


def _checks(report: Report) -> Iterator[Text]:
    """One line each: ``[FAIL] item  value (code) - cure``."""
    width = max((len(each.item) for each in report.checks), default=0)
    for check in report.checks:
        mark = (f"{'[' + check.status + ']':<6} ", STYLES[check.status])
        line = Text.assemble(mark, f"{check.item:<{width}}  ", check.value)
        if check.code:
            line.append(f" ({check.code})", style="dim")
        if check.cure:
            line.append(" - ", style="dim").append(check.cure, style="bold")
        yield line


def _ledger(report: Report, width: int) -> Iterator[RenderableType]:
    """Where the step goes and, where one line calls the whole model, which modules it goes to."""
    if report.ledger is None:
        return
    yield from ledger_lines(report.ledger, report.after, width)
    if report.ledger.lies_behind_one_line and report.ranks:
        tree = tree_lines(report.ranks[0])
        yield from map(Text, ["", *(cut_end(line, width) for line in tree)] if tree else ())


def _tables(report: Report) -> Iterator[RenderableType]:
    for index, table in enumerate(report.tables):
        yield from ("",) if index else ()
        yield _table(table)


def _table(table: Table) -> RenderableType:
    drawn = rich_table.Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    drawn.add_column(table.title, overflow="fold")
    for title in table.columns:
        drawn.add_column(title, justify="right")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def _findings(report: Report) -> Iterator[Text]:
    """Each on a line; those of a run with what to do, and the dearest with their source.

    A check says what a finding without a place is about.
    """
    known = [each for each in report.findings if each.span or not report.checks]
    shown = known[:EXCERPTS] if report.trials else known
    for index, finding in enumerate(shown):
        yield _finding(finding)
        if index < EXCERPTS:
            yield from (Text(f"    {line}", style="dim") for line in finding.excerpt)
        if finding.cure and (report.ranks or not finding.span):
            yield Text(f"    → {finding.cure}", style="green")
    if rest := len(known) - len(shown):
        yield Text(f"and {count(rest, 'finding')} more: --output FILE.html shows all", style="dim")


def _finding(finding: Finding) -> Text:
    """Ruff's one-line shape: place, code, whether ``--fix`` mends it, message, cost."""
    line = Text.assemble(
        f"{place(finding)}: " if place(finding) else "",
        (finding.code, STYLES[finding.severity]),
        " [*] " if finding.fix and finding.fix.safe else " ",
        finding.message,
    )
    if stake(finding):
        line.append(f" ({stake(finding)})", style="bold")
    return line


def _trials(report: Report) -> Iterator[RenderableType]:
    """A table of numbers, and below it a line for each trial that has more to say."""
    if not report.trials:
        return
    table = rich_table.Table(box=None, padding=(0, 2, 0, 0))
    for title in TRIED[:-1]:
        left = title in {"change", "verdict"}
        table.add_column(
            title, justify="left" if left else "right", no_wrap=title != "change", overflow="fold"
        )
    for trial in report.trials:
        style = STYLES.get(trial.verdict, "")
        cells = trial_row(trial)[:-1]
        table.add_row(*(Text(cell, style if cell == trial.verdict else "") for cell in cells))
    yield table
    for trial in report.trials:
        if note := trial_note(trial):
            yield Text(f"  {trial.change}: {note}", style="dim")


def _comparisons(report: Report) -> Iterator[RenderableType]:
    if not report.comparisons:
        return
    table = rich_table.Table(box=None, padding=(0, 2, 0, 0))
    for title in compared(report):
        words = title in {"metric", "verdict", "why"}
        table.add_column(
            title, justify="left" if words else "right", no_wrap=title != "why", overflow="fold"
        )
    for each in report.comparisons:
        style = STYLES.get(each.verdict, "")
        cells = comparison_row(each)
        table.add_row(*(Text(cell, style if cell == each.verdict else "") for cell in cells))
    yield table


def _remarks(report: Report) -> Iterator[RenderableType]:
    """Notes, then what was skipped, then the last line."""
    yield from (Text(line, style="dim") for line in remarks(report))
    if closing(report):
        yield from ("",) if remarks(report) else ()
        yield Text(closing(report), style="bold")
