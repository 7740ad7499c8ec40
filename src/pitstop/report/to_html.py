"""HTML: the whole report as one page that needs nothing else, not even a network."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pitstop.core.ledger import Ledger
from pitstop.core.printable import printable_value
from pitstop.core.report import Report
from pitstop.core.units import binary_bytes, count, milliseconds, percent, rate
from pitstop.report import charts, waterfall, wording
from pitstop.report.module_tree import module_tree

SUFFIX = ".html"
MARK = '<meta name="generator" content="pitstop">'  # in what was written by this
FOLDER = Path(__file__).parent / "page"
MOST_OPERATIONS = 40  # by time above the floor; what comes after is noise


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation at one line: the time it took, and the least it could take."""

    what: str
    place: str  # its line; where one line calls the whole model, its module
    calls: int
    ms: float
    floor_ms: float
    above_ms: float


def render(report: Report) -> str:
    """The report as a page; every text in it is escaped."""
    report = printable_value(report)
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        milliseconds=milliseconds, percent=percent, bytes=binary_bytes, count=count, rate=rate,
        place=wording.place, stake=wording.stake, dearest=waterfall.dearest, coded=_coded,
        drawing=charts.drawing,
    )  # fmt: skip
    first = report.ranks[0] if report.ranks else None
    template = environment.get_template("report.html")
    return template.render(
        report=report,
        wording=wording,
        evidence=first,
        bars=list(waterfall.bars(report.ledger, report.after)) if report.ledger else [],
        tuned=list(waterfall.bars(report.after, report.ledger)) if report.after else [],
        is_idle=waterfall.is_idle,
        operations=list(_operations(report.ledger)) if report.ledger else [],
        modules=module_tree(first) if first else [],
        points=charts.step_points(first) if first else [],
        ceiling=charts.step_ceiling(first) if first and first.steps else 0.0,
        curves=charts.memory_curves(first) if first else [],
        lanes=charts.lanes(report.ranks),
        width=charts.WIDTH,
        height=charts.HEIGHT,
    )


def _coded(text: str) -> Markup:
    """A text whose words between backticks are code; everything in it is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one without its partner
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def _operations(ledger: Ledger) -> Iterator[OperationRow]:
    """Operations by what they take beyond their time at full speed, dearest first."""
    found: dict[tuple[str, str], list[float]] = {}
    by_module = ledger.lies_behind_one_line
    for row in ledger.rows:
        if waterfall.is_idle(row.cause) or not row.what:
            continue
        place = row.module if by_module and row.module else waterfall.short_place(row.where)
        sums = found.setdefault((row.what, place), [0, 0.0, 0.0])
        sums[0] = max(sums[0], row.calls)
        sums[1] += row.ms
        sums[2] += row.ms if row.cause == "floor" else 0.0
    rows = [
        OperationRow(what, place, int(calls), ms, floor, ms - floor)
        for (what, place), (calls, ms, floor) in found.items()
    ]
    yield from sorted(rows, key=lambda row: -row.above_ms)[:MOST_OPERATIONS]
