"""Idle: what the device waited for. Pure arithmetic on gaps between kernels and on samples.

On a GPU the gaps of one step at nearly full speed tell the causes, and the lines at which the main
thread was found in other steps correct them: a line explains no more idle time than was spent at
it, and Python that took longer than the GPU can have been busy meanwhile left it idle.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pitstop.core.evidence import ENOUGH_SAMPLES, Evidence, Line, Sampled
from pitstop.core.ledger import Cause, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.facts.operations import EMPTYING
from pitstop.diagnose.facts.waits import copied_bytes, waiting, with_lines
from pitstop.diagnose.ledger.samples import (
    beyond_torch,
    empties_cache,
    in_forward,
    in_library,
    is_compiled,
    is_own,
    line_ms,
    on_cpu,
)
from pitstop.diagnose.ledger.usual import usual_core_wait_ms, usual_wait_ms

GAPS: dict[str, Cause] = {
    "sync": "sync",
    "copy": "transfer",
    "launch": "launch",
    "python": "python",
    "data": "data",
}
COMPILED = "compiled code"
SPARE = 0.05  # of the step: sampling slows Python, which then waits less for the GPU

Kind = tuple[Cause, str, Callable[[Sampled], bool]]  # of samples: why, in what, and which


def gpu_idle(
    evidence: Evidence, idle_ms: float, busy_ms: float, limits: Limits | None
) -> Iterator[Row]:
    """Idle time: first the wait for data that ran the device dry, then the gaps, then the rest."""
    waited = min(idle_ms, usual_wait_ms(evidence, dry=True))
    yield Row("data", waited)
    idle_ms -= waited
    gaps = _gaps(evidence)
    python = [gap for gap in gaps if gap.cause == "python"]
    own = _own_lines(evidence)
    at_least = _surely_idle(evidence, sum(own.values()), busy_ms, limits)
    seen = max(0.0, sum(gap.ms for gap in python) - waited - _pauses(evidence))
    python_ms = min(idle_ms, max(seen, at_least))
    core_ms = min(python_ms, usual_core_wait_ms(evidence))
    python_ms -= core_ms
    idle_ms -= core_ms
    yield Row("core", core_ms)
    others = _no_longer_than_at_the_line([gap for gap in gaps if gap.cause != "python"], evidence)
    others = shrunk(others, idle_ms - python_ms)
    yield from with_lines(others, evidence, limits)
    yield from _named(own, python_ms, sum(gap.calls for gap in python))
    yield Row("idle", idle_ms - python_ms - sum(gap.ms for gap in others))


def cpu_idle(evidence: Evidence, idle_ms: float) -> Iterator[Row]:
    """Time outside torch's operations: waits for data and cores, then samples by their lines.

    Compiled code is no operation of torch, and no Python either. Where anything was compiled no
    operation was looked into, and what a line did itself may be one.
    """
    waited = min(idle_ms, usual_wait_ms(evidence, dry=False))
    core_ms = min(idle_ms - waited, usual_core_wait_ms(evidence))
    yield Row("data", waited)
    yield Row("core", core_ms)
    idle_ms -= waited + core_ms
    kinds: tuple[Kind, ...] = (("python", "", in_forward),)
    if not evidence.operations:
        kinds = ("python", "", in_library), ("unmeasured", COMPILED, is_compiled)
        kinds += (("unmeasured", "", lambda each: not in_library(each) and not is_compiled(each)),)
    lines = [
        Row(cause, ms, what, line)
        for cause, what, counts in kinds
        for line, ms in beyond_torch(evidence, counts, lambda _: True).items()
    ]
    lines = shrunk(lines, idle_ms)
    yield from lines
    yield Row("idle", idle_ms - sum(row.ms for row in lines))


def shrunk(rows: Sequence[Row], room_ms: float) -> list[Row]:
    """The rows, made smaller together where they would not fit: two clocks never quite agree."""
    total = sum(row.ms for row in rows)
    scale = room_ms / total if total > room_ms else 1.0
    return [replace(row, ms=row.ms * scale) for row in rows]


def _gaps(evidence: Evidence) -> list[Row]:
    """The timeline's gaps; where every step tells of its wait for data, that is not told twice."""
    dry = any(step.dry_ms is not None for step in evidence.steady)
    found = [each for each in evidence.gaps if each.cause in GAPS]
    return [
        Row(GAPS[gap.cause], gap.micros / 1e3, "", gap.where, gap.count)
        for gap in found
        if gap.cause != "data" or not dry
    ]


def _pauses(evidence: Evidence) -> float:
    """What makes the timeline's step unusually long: our own work, which looks like Python."""
    timeline_ms = evidence.timeline_ms or 0.0
    _, longest_ms = evidence.quartiles_ms()
    return timeline_ms - evidence.median_ms() if timeline_ms > longest_ms else 0.0


def _own_lines(evidence: Evidence) -> dict[Line, float]:
    """What lines take beyond launching and waiting; work on the host's own tensors is theirs."""
    waits = {each.where for each in waiting(evidence)}
    spent = beyond_torch(
        evidence,
        lambda sample: is_own(sample) or empties_cache(sample),
        lambda operation: not on_cpu(operation) and operation.name != EMPTYING,
    )
    return {line: ms for line, ms in spent.items() if line not in waits}


def _surely_idle(evidence: Evidence, own_ms: float, busy_ms: float, limits: Limits | None) -> float:
    """The least time in which the GPU idled while lines did work of their own.

    While Python waits for the GPU that is busy, or copies. What it is busy beyond that may have
    run beside the work; the rest of the work had nothing beside it.
    """
    if limits is None or not limits.pageable_bytes_per_s:
        return 0.0
    waits = waiting(evidence)
    at = {each.where for each in waits}
    waited = sum(ms for line, ms in line_ms(evidence, lambda _: True).items() if line in at)
    copied = sum(map(copied_bytes, waits)) / limits.pageable_bytes_per_s * 1e3
    beside = busy_ms - max(0.0, waited - copied)
    return max(0.0, own_ms - max(0.0, beside))


def _no_longer_than_at_the_line(gaps: Sequence[Row], evidence: Evidence) -> list[Row]:
    """The gaps after waits, of which a line explains no more than the time that was spent at it."""
    total = sum(each.samples for each in evidence.sampled)
    if total < ENOUGH_SAMPLES:
        return list(gaps)
    spare = SPARE * evidence.median_ms()
    spent = line_ms(evidence, lambda _: True)
    sums = {gap.where: sum(each.ms for each in gaps if each.where == gap.where) for gap in gaps}
    return [
        replace(gap, ms=gap.ms * min(1.0, (spent.get(gap.where, 0.0) + spare) / sums[gap.where]))
        if gap.where.path and sums[gap.where]
        else gap
        for gap in gaps
    ]


def _named(own: dict[Line, float], python_ms: float, stretches: int) -> Iterator[Row]:
    """Python by the lines that did work of their own; what they do not explain has no line."""
    lines = shrunk([Row("python", ms, "", line) for line, ms in own.items()], python_ms)
    yield from lines
    yield Row("python", python_ms - sum(row.ms for row in lines), calls=stretches)
