"""Ledger: split the median step by cause. Pure arithmetic on saved evidence.

The undisturbed steps give the length of the step; the inspected step gives what the device did in
it, operation by operation. What is left is idle time, and is split by what the main thread did
meanwhile: on a GPU by the gaps between kernels of a step at full speed, on a CPU, where the device
is the main thread inside torch, by the lines that it was found at. Inspection slows Python but not
kernels, so idle time is never taken from an inspected step.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.floor import Floor, floor_of
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
    room = step_ms if on_gpu else max(0.0, step_ms - evidence.median_ms("data_wait_ms"))
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
            yield Row(cause, ms, short(each.name), each.where, each.calls)
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
    if short(operation.name) in COPIES:
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
    """Idle time: first the wait for data that ran the device dry, then the gaps, then the rest."""
    dry = [step.dry_ms for step in evidence.steady if step.dry_ms is not None]
    waited = min(idle_ms, sum(dry) / len(dry)) if dry else 0.0
    yield Row("data", waited)
    idle_ms -= waited
    gaps = [Row(GAPS[gap.cause], gap.micros / 1e3, "", gap.where, gap.count) for gap in
            evidence.gaps if gap.cause in GAPS and not (gap.cause == "data" and dry)]  # fmt: skip
    gaps = _shrunk(gaps, idle_ms)
    yield from gaps
    yield Row("idle", idle_ms - sum(gap.ms for gap in gaps))


def _cpu_idle(evidence: Evidence, idle_ms: float) -> Iterator[Row]:
    """Time outside torch: the wait for data, then Python by the lines that were sampled."""
    waited = min(idle_ms, evidence.median_ms("data_wait_ms"))
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
    return [Row(row.cause, row.ms * scale, row.what, row.where, row.calls) for row in rows]


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


def short(name: str) -> str:
    """``aten.convolution_backward.default`` as people say it."""
    return name.removeprefix("aten.").partition(".")[0]
