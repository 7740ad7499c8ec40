"""Terminal: verdict first, then the items, findings and trials, in colour where there is colour."""

from collections.abc import Iterator

from rich import table as rich_table
from rich.console import Console, RenderableType
from rich.text import Text

from pitstop.core.finding import Finding
from pitstop.core.report import Check, Report, Table
from pitstop.core.trial import Trial
from pitstop.report.wording import closing, headline, place, remarks, stake, trial_numbers

SUFFIX = ".txt"
STYLES = {
    "ok": "green",
    "warn": "yellow",
    "FAIL": "bold red",
    "n/a": "dim",
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
    "kept": "green",
    "drifted": "red",
    "failed": "red",
}
PLAIN_WIDTH = 100  # where there is no terminal to ask


def render(report: Report, color: bool = False, width: int | None = None) -> str:
    """The report as text; ``color`` adds ANSI sequences."""
    console = Console(
        width=width or PLAIN_WIDTH,
        force_terminal=color,
        color_system="truecolor" if color else None,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    with console.capture() as captured:
        for part in _parts(report):
            console.print(part, soft_wrap=isinstance(part, Text))  # the terminal wraps: copyable
    lines = captured.get().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _parts(report: Report) -> Iterator[RenderableType]:
    yield _headline(report)
    if report.checks:
        yield ""
        yield from (_check(check, report.checks) for check in report.checks)
    for table in report.tables:
        yield ""
        yield _table(table)
    listed = [finding for finding in report.findings if finding.span]
    if listed:
        yield ""
        yield from (_finding(finding) for finding in listed)
    if report.trials:
        yield ""
        yield _trials(report.trials)
    if remarks(report):
        yield ""
        yield from (Text(line, style="dim") for line in remarks(report))
    if closing(report):
        yield ""
        yield Text(closing(report), style="bold")


def _headline(report: Report) -> RenderableType:
    grid = rich_table.Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in headline(report):
        grid.add_row(Text(label, style="bold"), text)
    return grid


def _check(check: Check, checks: tuple[Check, ...]) -> Text:
    """One line: ``[FAIL] item  value (code) - cure``."""
    width = max(len(each.item) for each in checks)
    mark = (f"{'[' + check.status + ']':<6} ", STYLES[check.status])
    line = Text.assemble(mark, f"{check.item:<{width}}  ", check.value)
    if check.code:
        line.append(f" ({check.code})", style="dim")
    if check.cure:
        line.append(" - ", style="dim").append(check.cure, style="bold")
    return line


def _table(table: Table) -> RenderableType:
    drawn = rich_table.Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    drawn.add_column(table.title, overflow="fold")
    for title in table.columns:
        drawn.add_column(title, justify="right")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def _finding(finding: Finding) -> Text:
    """Ruff's one-line shape: place, code, whether ``--fix`` mends it, message, cost."""
    line = Text.assemble(
        f"{place(finding)}: ",
        (finding.code, STYLES[finding.severity]),
        " [*] " if finding.fix else " ",
        finding.message,
    )
    if stake(finding):
        line.append(f" ({stake(finding)})", style="bold")
    return line


def _trials(trials: tuple[Trial, ...]) -> RenderableType:
    table = rich_table.Table(box=None, padding=(0, 2, 0, 0))
    for title in ("change", "verdict"):
        table.add_column(title)
    for title in ("before", "after", "gain"):
        table.add_column(title, justify="right")
    table.add_column("note", overflow="fold")
    for trial in trials:
        verdict = Text(trial.verdict, style=STYLES.get(trial.verdict, ""))
        table.add_row(trial.change, verdict, *trial_numbers(trial), trial.note)
    return table
