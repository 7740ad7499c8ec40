"""Gaps: the idle stretches of a device, each with its cause. Pure: events in, rows out.

A synchronisation costs the lead that the host had: while it waits it launches nothing, and after
it the device runs dry as often as the host would have been ahead. So a wait of 6 ms explains at
most 6 ms of the idle time that follows, and a wait for a device that has nothing to do explains
none: then it is the host itself that is slow, launching kernels or running Python. What the host
does with data that it had to wait for could not have run earlier either: that is Python, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

Place = tuple[str, int, str]  # path, line, function
Span = tuple[float, float]

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemset", "cudaMemcpy", "cuMemcpy")
COPIES = ("cudaMemcpy", "cuMemcpy")
FETCH = "Memcpy DtoH"
TRANSFERS = ("Memcpy HtoD", FETCH)
QUIET_INTERVALS = 5  # times the usual distance of two launches: then the host does something else
QUIET_MICROS = 100.0  # and never less: an operation with much overhead takes so long to launch
SMALL_TRANSFER_MICROS = 5.0  # some 100 KB; the number that ``.item()`` reads takes one or two
UNKNOWN: Place = ("", 0, "")


@dataclass(frozen=True, slots=True)
class Event:
    """Something on the device, or a CUDA call of the host, in microseconds."""

    name: str
    start: float
    end: float
    number: int = 0  # the same for a call and what it put on the device
    host: bool = False


@dataclass(slots=True)
class Wait:
    """A synchronisation, with the copy that it waits for, and what it can still explain."""

    number: int  # in its step
    begin: float
    end: float
    cause: str
    credit: float
    fetches: bool  # data, which the host works on next: that could not have run meanwhile


@dataclass(frozen=True, slots=True)
class Found:
    """Idle microseconds with one cause; ``wait`` is the synchronisation behind them, or -1."""

    cause: str
    micros: float
    wait: int = -1


def gaps(events: Iterable[Event], marks: Sequence[float], step: int = -1) -> list[Found]:
    """Idle time of the device in the step that ends at a mark; those before explain it too."""
    ordered = sorted(events, key=lambda event: event.start)
    calls = [event for event in ordered if event.host]
    device = [event for event in ordered if not event.host]
    waits = _waits(calls, device, marks)
    quiet = _quiet([call for call in calls if call.name.startswith(LAUNCHES + WAITS)])
    asked = {call.number: call.end for call in calls}
    begin, end = marks[step - 1], marks[step]
    found = list(_transferred(device, waits, begin, end))
    for start, stop, following in _idle(device, begin, end):
        if following and asked.get(following.number, stop) <= start:
            found.append(Found("launch", stop - start))  # it was queued: the device's own pause
        else:
            found += _explained(start, stop, waits, quiet)
    return found


def located(found: Sequence[Found], sync_lines: Sequence[Place]) -> list[list[object]]:
    """Rows of cause, µs, count and line, dearest first; lines by the order of the waits.

    The inspected step gives the lines. Where it waited less often than this one, only a line
    that all its waits share can be told.
    """
    waits = 1 + max((each.wait for each in found), default=-1)
    only = sync_lines[0] if len(set(sync_lines)) == 1 else UNKNOWN
    rows: dict[tuple[str, Place], list[float]] = {}
    for each in found:
        place = UNKNOWN
        if each.wait >= 0:
            place = sync_lines[each.wait] if waits <= len(sync_lines) else only
        row = rows.setdefault((each.cause, place), [0.0, 0])
        row[0] += each.micros
        row[1] += 1
    ranked = sorted(rows.items(), key=lambda item: -item[1][0])
    return [[cause, round(us, 1), int(n), *place] for (cause, place), (us, n) in ranked]


def _waits(calls: Sequence[Event], device: Sequence[Event], marks: Sequence[float]) -> list[Wait]:
    """The synchronisations, numbered in each step; a copy right before one belongs to it."""
    moved = {event.number: event for event in device if is_transfer(event.name)}
    found: list[Wait] = []
    number = step = 0
    for before, call in pairwise([Event("", 0.0, 0.0), *calls]):
        if not call.name.startswith(WAITS):
            continue
        while step < len(marks) and call.start >= marks[step]:
            number, step = 0, step + 1
        begin = before.start if before.name.startswith(COPIES) else call.start
        copy = moved.get(before.number) if begin == before.start else None
        cause = "sync" if copy is None or _is_small(copy) else "copy"
        fetches = cause == "copy" and copy is not None and copy.name.startswith(FETCH)
        found.append(Wait(number, begin, call.end, cause, call.end - begin, fetches))
        number += 1
    return found


def by_name(ran: Iterable[tuple[str, float]]) -> list[list[Any]]:
    """Names with calls and µs, the longest first, of names and µs one by one."""
    found: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for name, micros in ran:
        found[name][0] += 1
        found[name][1] += micros
    rows = [[name, int(calls), round(micros, 1)] for name, (calls, micros) in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def is_transfer(name: str) -> bool:
    """Whether bytes go between host and device; the device computes nothing meanwhile."""
    return name.startswith(TRANSFERS)


def _is_small(copy: Event) -> bool:
    """Whether this is how a number is read, rather than how data are moved."""
    return copy.name.startswith(FETCH) and copy.end - copy.start < SMALL_TRANSFER_MICROS


def _transferred(
    device: Sequence[Event], waits: Sequence[Wait], begin: float, end: float
) -> Iterator[Found]:
    """The times in which bytes went between host and device and no kernel ran."""
    kernels = [each for each in device if not is_transfer(each.name)]
    idle = list(_idle(kernels, begin, end))
    for event in device:
        if is_transfer(event.name) and event.end > begin and event.start < end:
            micros = sum(max(0.0, min(event.end, b) - max(event.start, a)) for a, b, _ in idle)
            wait = next((w for w in waits if w.begin <= event.end and event.start <= w.end), None)
            small = "sync" if wait else "launch"  # the latter as our own reading of the loss
            cause = small if _is_small(event) else "copy"
            yield Found(cause, micros, wait.number if wait else -1)


def _explained(
    start: float, stop: float, waits: Sequence[Wait], quiet: Sequence[Span]
) -> Iterator[Found]:
    """What lies behind an idle stretch: waits first, then Python, then launches."""
    left = stop - start
    python = min(left, sum(max(0.0, min(b, stop) - max(a, start)) for a, b in quiet))
    for wait in reversed([each for each in waits if each.begin <= stop and each.credit > 0]):
        spent = min(left - python if wait.fetches else left, wait.credit)
        if spent > 0:
            wait.credit -= spent
            left -= spent
            python = min(python, left)
            yield Found(wait.cause, spent, wait.number)
    if python > 0:
        yield Found("python", python)
    if left - python > 0:
        yield Found("launch", left - python)


def _quiet(calls: Sequence[Event]) -> list[Span]:
    """Stretches in which the host made no call for much longer than it usually does."""
    spans = [(a.end, b.start) for a, b in pairwise(calls) if b.start > a.end]
    if not spans:
        return []
    usual = median(stop - start for start, stop in spans)
    long = max(QUIET_MICROS, QUIET_INTERVALS * usual)
    return [(start, stop) for start, stop in spans if stop - start > long]


def _idle(
    device: Sequence[Event], begin: float, end: float
) -> Iterator[tuple[float, float, Event | None]]:
    """Stretches between two moments in which none of the events runs, and what ends each."""
    cursor = begin
    for event in device:
        if event.start > cursor and cursor < end:
            yield cursor, min(event.start, end), event
        cursor = max(cursor, event.end)
    if cursor < end:
        yield cursor, end, None
