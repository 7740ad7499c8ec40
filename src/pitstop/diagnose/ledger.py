"""Ledger: split the median step by cause. Pure arithmetic on saved evidence.

The undisturbed steps give the length of the step; the inspected step gives what the device did in
it, operation by operation. What is left is idle time, and is split by what the main thread did
meanwhile: on a GPU by the gaps between kernels of a step at full speed, on a CPU, where the device
is the main thread inside torch, by the lines that it was found at. Inspection slows Python but not
kernels, so idle time is never taken from an inspected step.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.floor import Floor, floor_of
from pitstop.diagnose.operations import short
from pitstop.diagnose.waste import needless_calls, repeated_calls

COPIES = {"_to_copy", "copy_", "clone"}
GAPS: dict[str, Cause] = {
    "sync": "sync",
    "copy": "transfer",
    "launch": "launch",
    "python": "python",
    "data": "data",
}
SPECK = 1e-9  # of the step: what rounding leaves over is no row
AUTOGRAD = "autograd/graph.py"  # the thread is in a backward pass, whose operations are known

Part = tuple[Cause, float]  # a cause and its milliseconds


def account(evidence: Evidence, limits: Limits | None, cores: int = 0) -> Ledger:
    """The ledger of one process that finished undisturbed steps."""
    step_ms = evidence.median_ms()
    on_gpu = any(each.device_micros is not None for each in evidence.operations)
    on_gpu = on_gpu or bool(evidence.kernels)
    busy = list(_busy(evidence, limits, cores, on_gpu))
    room = step_ms if on_gpu else max(0.0, step_ms - usual_wait_ms(evidence, dry=False))
    busy = _shrunk(busy, room)
    left = step_ms - sum(row.ms for row in busy)
    idle = _gpu_idle(evidence, left) if on_gpu else _cpu_idle(evidence, left)
    rows = [row for row in _merged([*idle, *busy]) if row.ms > SPECK * step_ms]
    return Ledger(step_ms, "cuda" if on_gpu else "cpu", tuple(rows), limits is not None)


def _busy(evidence: Evidence, limits: Limits | None, cores: int, on_gpu: bool) -> Iterator[Row]:
    """What the device did, each operation split by cause."""
    needless = needless_calls(evidence)
    repeated = repeated_calls(evidence)
    counted = 0.0
    for each in evidence.operations:
        micros = each.device_micros or 0.0 if on_gpu else each.micros
        if not on_gpu and each.phase == "wait":
            continue  # a batch is put together on this thread: the wait has it already
        counted += micros
        floor = floor_of(each, micros / 1e3, limits, evidence.settings, cores)
        for cause, ms in _parts(each, micros / 1e3, floor, needless, repeated):
            yield Row(cause, ms, short(each), each.where, each.calls)
    untied = sum(each.micros for each in evidence.kernels) - counted
    if on_gpu and untied > 0:
        yield Row("unmeasured", untied / 1e3, "kernels of no known operation")


def _parts(
    operation: Operation,
    ms: float,
    floor: Floor | None,
    needless: frozenset[int],
    repeated: frozenset[int],
) -> Iterator[Part]:
    """One operation's time by cause; the first that fits takes it."""
    if operation.call in needless:
        yield "unused", ms
        return
    layout = min(ms, operation.layout_micros / 1e3)
    yield "layout", layout
    ms -= layout
    if short(operation) in COPIES:
        yield "copy", ms
    elif operation.phase == "optimizer":
        yield "optimizer", ms
    elif floor is None:
        yield "unmeasured", ms
    else:
        least, used = min(ms, floor.best_ms), min(ms, floor.used_ms)
        yield "floor", least
        yield "precision", used - least
        yield ("repeated" if operation.call in repeated else "above"), ms - used


def _gpu_idle(evidence: Evidence, idle_ms: float) -> Iterator[Row]:
    """Idle time: first the wait for data that ran the device dry, then the gaps, then the rest.

    To a timeline such a wait is Python, so as much of that is not told again.
    """
    known = any(step.dry_ms is not None for step in evidence.steady)
    waited = min(idle_ms, usual_wait_ms(evidence, dry=True))
    yield Row("data", waited)
    idle_ms -= waited
    found = [each for each in evidence.gaps if each.cause in GAPS]
    found = [each for each in found if each.cause != "data" or not known]
    gaps = [Row(GAPS[gap.cause], gap.micros / 1e3, "", gap.where, gap.count) for gap in found]
    python = sum(gap.ms for gap in gaps if gap.cause == "python")
    left = max(0.0, 1 - waited / python) if python else 1.0
    gaps = [replace(gap, ms=gap.ms * left) if gap.cause == "python" else gap for gap in gaps]
    gaps = _shrunk(gaps, idle_ms)
    yield from gaps
    yield Row("idle", idle_ms - sum(gap.ms for gap in gaps))


def usual_wait_ms(evidence: Evidence, dry: bool) -> float:
    """The wait for data of a usual step: the mean over the middle half of the steps by length.

    Where most steps wait a little and the first of each epoch waits long, the median step waits
    a little; where every other step waits, it waits half as long.
    """
    steps = sorted(evidence.steady, key=lambda step: step.total_ms)
    quarter = len(steps) // 4
    usual = steps[quarter : len(steps) - quarter]
    waits = [step.dry_ms if dry else step.data_wait_ms for step in usual]
    known = [wait for wait in waits if wait is not None]
    return fmean(known) if known else 0.0


def _cpu_idle(evidence: Evidence, idle_ms: float) -> Iterator[Row]:
    """Time outside torch: the wait for data, then Python by the lines that were sampled."""
    waited = min(idle_ms, usual_wait_ms(evidence, dry=False))
    yield Row("data", waited)
    idle_ms -= waited
    lines = _shrunk(list(_python_lines(evidence)), idle_ms)
    yield from lines
    yield Row("idle", idle_ms - sum(row.ms for row in lines))


def _python_lines(evidence: Evidence) -> Iterator[Row]:
    """What a line took beyond the operations that it called, by the samples that found it."""
    step_ms = evidence.median_ms()
    total = sum(each.samples for each in evidence.sampled)
    inside: dict[Line, float] = defaultdict(float)
    for operation in evidence.operations:
        if operation.phase not in {"wait", "backward"}:
            inside[operation.where] += operation.micros / 1e3
    found: dict[Line, int] = defaultdict(int)
    for each in evidence.sampled:
        if not each.waiting and AUTOGRAD not in each.inside:
            found[each.where] += each.samples
    for line, samples in found.items():
        spare = samples / total * step_ms - inside[line]
        if spare > 0:
            yield Row("python", spare, "", line)


def _shrunk(rows: Sequence[Row], room_ms: float) -> list[Row]:
    """The rows, made smaller together where they would not fit: two clocks never quite agree."""
    total = sum(row.ms for row in rows)
    scale = room_ms / total if total > room_ms else 1.0
    return [replace(row, ms=row.ms * scale) for row in rows]


def _merged(rows: Iterable[Row]) -> list[Row]:
    """One row for each cause, operation and line; dearest first."""
    sums: dict[tuple[Cause, str, Line], tuple[float, int]] = {}
    for row in rows:
        key = row.cause, row.what, row.where
        ms, calls = sums.get(key, (0.0, 0))
        sums[key] = ms + row.ms, calls + row.calls
    merged = [
        Row(cause, ms, what, where, calls) for (cause, what, where), (ms, calls) in sums.items()
    ]
    return sorted(merged, key=lambda row: -row.ms)
