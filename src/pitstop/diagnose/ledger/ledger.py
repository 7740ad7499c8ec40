"""Ledger: split the median step by cause. Pure arithmetic on saved evidence.

The undisturbed steps give the length of the step; the inspected step gives what the device did in
it, operation by operation. What is left is idle time, and is split by what the main thread did
meanwhile: on a GPU by the gaps between kernels of a step at full speed, on a CPU, where the device
is the main thread inside torch, by the lines that it was found at. Inspection slows Python but not
kernels, so idle time is never taken from an inspected step. Where no kernel was timed, or no step
looked into, the ledger says so and has no other rows than the wait for data.
"""

from collections.abc import Iterable, Iterator

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.facts.batching import paid_once_ms
from pitstop.diagnose.facts.calls import starred
from pitstop.diagnose.facts.operations import UNTIED, short
from pitstop.diagnose.facts.waste import needless_calls, repeated_calls
from pitstop.diagnose.ledger.floor import Floor, floor_of
from pitstop.diagnose.ledger.idle import cpu_idle, gpu_idle, shrunk
from pitstop.diagnose.ledger.usual import usual_share_on_core, usual_wait_ms

COPIES = {"_to_copy", "copy_", "clone"}
PHASES = {  # of an operation, and the fields of a step that hold its time
    "": ("forward_ms", "other_ms"),
    "backward": ("backward_ms",),
    "optimizer": ("optimizer_ms",),
}
SMALL_MS = 0.05  # of an inspected call above its floor: torch itself takes that for any operation
SPECK = 1e-9  # of the step: what rounding leaves over is no row

Part = tuple[Cause, float]  # a cause and its milliseconds


def account(evidence: Evidence, limits: Limits | None, cores: int = 0) -> Ledger:
    """The ledger of one process that finished undisturbed steps."""
    step_ms = evidence.median_ms()
    on_gpu = _is_on_gpu(evidence)
    seen = _is_timed(evidence) if on_gpu else bool(evidence.operations or evidence.sampled)
    busy = list(_busy(evidence, limits, cores, on_gpu)) if seen else []
    room = step_ms if on_gpu else max(0.0, step_ms - usual_wait_ms(evidence, dry=False))
    busy = shrunk(busy, room)
    busy_ms = sum(row.ms for row in busy)
    left = step_ms - busy_ms
    if not seen:
        idle = _unseen(evidence, left, on_gpu)
    elif on_gpu:
        idle = gpu_idle(evidence, left, busy_ms, limits)
    else:
        idle = cpu_idle(evidence, left)
    rows = [row for row in _merged([*idle, *busy]) if row.ms > SPECK * step_ms]
    floor_known = any(row.cause == "floor" for row in rows)
    return Ledger(step_ms, "cuda" if on_gpu else "cpu", tuple(rows), floor_known)


def _is_on_gpu(evidence: Evidence) -> bool:
    """Whether the model runs on a GPU, also where the times of its kernels are not known."""
    if _is_timed(evidence):
        return True
    if evidence.operations:
        return evidence.settings is not None and evidence.settings.device == "cuda"
    return any(step.device_ms is not None for step in evidence.steady)


def _is_timed(evidence: Evidence) -> bool:
    """Whether it is known how long the kernels of a step ran.

    Where operations are known but not their kernels, a timeline is of other steps than these.
    """
    if evidence.operations:
        return any(each.device_micros is not None for each in evidence.operations)
    return bool(evidence.kernels)


def _unseen(evidence: Evidence, left_ms: float, on_gpu: bool) -> Iterator[Row]:
    """The wait for data, which every step tells, and a rest that nobody looked into."""
    waited = min(left_ms, usual_wait_ms(evidence, dry=on_gpu))
    yield Row("data", waited)
    yield Row("unseen", left_ms - waited)


def _busy(evidence: Evidence, limits: Limits | None, cores: int, on_gpu: bool) -> Iterator[Row]:
    """What the device did, each operation split by cause."""
    needless = needless_calls(evidence)
    repeated = repeated_calls(evidence)
    counted = 0.0
    quicker = {} if on_gpu else _uninspected(evidence)
    for each in evidence.operations:
        micros = each.device_micros or 0.0 if on_gpu else each.micros
        if not on_gpu and each.phase == "wait":
            continue  # a batch is put together on this thread: the wait has it already
        micros *= quicker.get(each.phase, 1.0)
        counted += micros
        floor = floor_of(each, micros / 1e3, limits, evidence.settings, cores)
        small_ms = 0.0 if on_gpu else SMALL_MS
        for cause, ms in _parts(each, micros / 1e3, floor, needless, repeated, small_ms):
            yield Row(cause, ms, short(each), each.where, each.calls, _module(evidence, each))
    untied = sum(each.micros for each in evidence.kernels) - counted
    if on_gpu and untied > 0:
        yield Row("unmeasured", untied / 1e3, UNTIED)


def _module(evidence: Evidence, operation: Operation) -> str:
    """The module that ran an operation; those that differ in their numbers only are one."""
    known = 0 <= operation.call < len(evidence.calls)
    return starred(evidence.calls[operation.call].path) if known else ""


def _uninspected(evidence: Evidence) -> dict[str, float]:
    """How much of its time in the inspected step each phase takes when nobody looks.

    Looking at a small operation takes as long as it does, and an optimizer has many. Where others
    use the cores, an operation waits for its turn as well, and each phase has its share of that.
    """
    found, on_core = {}, usual_share_on_core(evidence)
    for phase, fields in PHASES.items():
        inspected = sum(each.micros for each in evidence.operations if each.phase == phase) / 1e3
        usual = sum(map(evidence.median_ms, fields)) * on_core
        found[phase] = min(1.0, usual / inspected) if usual and inspected else 1.0
    return found


def _parts(
    operation: Operation,
    ms: float,
    floor: Floor | None,
    needless: frozenset[int],
    repeated: frozenset[int],
    small_ms: float,
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
        above = ms - used
        small = above < small_ms * operation.calls
        rest: Cause = "start" if small else "above"
        once = paid_once_ms(operation, above, not small_ms) if operation.call in repeated else 0.0
        yield "repeated", once
        yield rest, above - once


def _merged(rows: Iterable[Row]) -> list[Row]:
    """One row for each cause, operation, line and module; dearest first."""
    sums: dict[tuple[Cause, str, Line, str], tuple[float, int]] = {}
    for row in rows:
        key = row.cause, row.what, row.where, row.module
        ms, calls = sums.get(key, (0.0, 0))
        sums[key] = ms + row.ms, calls + row.calls
    merged = [
        Row(cause, ms, what, where, calls, module)
        for (cause, what, where, module), (ms, calls) in sums.items()
    ]
    return sorted(merged, key=lambda row: -row.ms)
