"""Waterfall: the ledger as steps from the hardware at full speed up to the whole step."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from pitstop.core.evidence import Line
from pitstop.core.ledger import IDLE, Cause, Ledger, Row
from pitstop.core.units import milliseconds, percent
from pitstop.report.shortened import cut_end, cut_front

ORDER: tuple[Cause, ...] = (
    "floor",
    "unmeasured",
    "unseen",
    "precision",
    "above",
    "start",
    "optimizer",
    "copy",
    "layout",
    "repeated",
    "unused",
    "launch",
    "transfer",
    "sync",
    "core",
    "python",
    "idle",
    "data",
)
LABELS: dict[Cause, str] = {
    "floor": "hardware at full speed",
    "unmeasured": "busy, full speed unknown",
    "unseen": "GPU not measured",
    "precision": "slower precision than it has",
    "above": "kernels below full speed",
    "start": "overhead of small operations",
    "optimizer": "optimizer",
    "copy": "copies",
    "layout": "layout conversion",
    "repeated": "repeated calls, batchable",
    "unused": "work that nobody uses",
    "launch": "idle: launching kernels",
    "transfer": "idle: host-device transfers",
    "sync": "idle: after a synchronisation",
    "core": "idle: waiting for a core",
    "python": "idle: Python",
    "idle": "idle: cause unknown",
    "data": "idle: waiting for data",
}
ON_CPU: dict[Cause, str] = {
    "above": "operations below full speed",
    "core": "waiting for a core",
    "python": "Python outside torch",
    "idle": "outside torch, cause unknown",
    "unseen": "not inspected",
    "data": "waiting for data",
}
SHORTEST_WHAT = 4  # characters of an operation; less of it says nothing
HALF_A_BLOCK = 0.5  # of a bar: what is shorter gets a thin line
BAR = 20  # characters of the longest bar
LONGEST_NAME = 24  # of a file with its line, where an operation needs room beside it


@dataclass(frozen=True, slots=True)
class Bar:
    """One cause: its time, its share, and where it begins and ends between 0 and 1."""

    cause: Cause
    label: str
    ms: float
    share: float
    begin: float
    end: float
    dearest: Row
    module: str = ""  # of that row, where its line tells nothing


def bars(ledger: Ledger, beside: Ledger | None = None) -> Iterator[Bar]:
    """Every cause that has time, each bar beginning where the one before ended.

    Beside another ledger: every cause that has time in either, on the scale of the longer step.
    """
    both = (ledger, beside) if beside else (ledger,)
    causes = {row.cause for each in both for row in each.rows}
    whole_ms = max(each.step_ms for each in both)
    begin = 0.0
    for cause in filter(causes.__contains__, ORDER):
        rows = [row for row in ledger.rows if row.cause == cause] or [Row(cause, 0.0)]
        ms = sum(row.ms for row in rows)
        end = begin + (ms / whole_ms if whole_ms else 0.0)
        module = rows[0].module if ledger.lies_behind_one_line else ""
        yield Bar(cause, label(cause, ledger), ms, ledger.share(ms), begin, end, rows[0], module)
        begin = end


def with_second_column(ledger: Ledger, after: Ledger | None) -> Iterator[tuple[Bar, str]]:
    """Each bar, and what stands beside its time: its share, or its time in a tuned script."""
    if after:
        seconds = [milliseconds(bar.ms) for bar in bars(after, ledger)]
    else:
        seconds = [percent(bar.share) for bar in bars(ledger)]
    yield from zip(bars(ledger, after), seconds, strict=True)


def label(cause: Cause, ledger: Ledger) -> str:
    """What people call a cause; on a CPU nothing is launched and nothing idles."""
    return ON_CPU.get(cause, LABELS[cause]) if ledger.device == "cpu" else LABELS[cause]


def drawn(bar: Bar, size: int = BAR) -> str:
    """The bar in characters, floating where the waterfall has come to."""
    begin, end = min(round(bar.begin * size), max(0, size - 1)), round(bar.end * size)
    tiny = (bar.end - bar.begin) * size < HALF_A_BLOCK
    return " " * begin + ("▏" if tiny or end <= begin else "█" * (end - begin))


def dearest(bar: Bar, room: int = 99) -> str:
    """The line and operation that most of a bar is made of, in so many characters.

    Where one line calls the whole model, it is the module and the operation. The number of a line
    is never cut: a name gives way at its front, then the operation at its end.
    """
    what, line = bar.dearest.what, bar.dearest.where
    if bar.module:
        module = cut_front(bar.module, max(room - len(what) - 1, room // 2))
        return cut_end(f"{module} {what}", room)
    if not line.path:
        return cut_end(what, room)
    number, name = f":{line.line}", PurePath(line.path).name
    whole = len(name) + len(number) + 1 + len(what) <= room
    longest = room if whole else min(LONGEST_NAME, room)
    place = f"{cut_front(name, longest - len(number))}{number}"
    left = room - len(place) - 1
    return f"{place} {cut_end(what, left)}".rstrip() if left >= SHORTEST_WHAT else place


def short_place(line: Line) -> str:
    """The last two parts of a path and the line; nothing where it is not known."""
    return f"{'/'.join(PurePath(line.path).parts[-2:])}:{line.line}" if line.path else ""


def is_idle(cause: Cause) -> bool:
    """Whether the device waits."""
    return cause in IDLE
