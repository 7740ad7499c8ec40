"""Waits: operations that make Python wait for the GPU, and what idle time of no line they explain.

The timeline knows a wait by its number in the step, and the inspected step its line. Where the two
steps waited differently often, no line is known for any of it. The samples know how long Python
was at each line that waits: a wait explains no more idle time than it took itself.
"""

from collections.abc import Sequence
from dataclasses import replace

from pitstop.core.evidence import ENOUGH_SAMPLES, Evidence, Line, Operation
from pitstop.core.ledger import Cause, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.facts.operations import EMPTYING, by_line, short, tensors
from pitstop.diagnose.ledger.samples import line_ms

COPIES = {"_to_copy", "copy_"}
LARGE_BYTES = 64 * 2**10  # smaller ones are numbers being read: their wait is a synchronisation


def waiting(evidence: Evidence) -> list[Operation]:
    """What waits for the GPU; to free its memory is work of the host's."""
    return [each for each in evidence.operations if each.waits and each.name != EMPTYING]


def copied_bytes(operation: Operation) -> int:
    """A copy reads and writes each byte; it crosses the bus once."""
    return operation.moved_bytes // 2


def is_transfer(operation: Operation) -> bool:
    """Whether it moves data between host and GPU and waits for that."""
    if not operation.waits or short(operation) not in COPIES or not operation.calls:
        return False
    return copied_bytes(operation) >= LARGE_BYTES * operation.calls


def with_lines(gaps: Sequence[Row], evidence: Evidence, limits: Limits | None) -> list[Row]:
    """The gaps; those after waits of no known line shared out to the lines that wait."""
    if sum(each.samples for each in evidence.sampled) < ENOUGH_SAMPLES:
        return list(gaps)
    spent = line_ms(evidence, lambda _: True)
    for gap in gaps:
        if gap.where in spent:
            spent[gap.where] -= gap.ms
    found: list[Row] = []
    for gap in gaps:
        alike = [each for each in waiting(evidence) if _cause(each) == gap.cause]
        lines = {} if gap.where.path else by_line(alike)
        least = {line: _moving_ms(copies, limits) for line, copies in lines.items()}
        parts = _shared_out(gap.ms, least, spent)
        for line, ms in parts.items():
            spent[line] -= ms
            found.append(replace(gap, ms=ms, where=line, calls=len(lines[line])))
        found.append(replace(gap, ms=gap.ms - sum(parts.values())))
    return found


def _cause(operation: Operation) -> Cause | None:
    """What the timeline calls idle time behind this wait; a number on the host is just there."""
    given = tensors(operation)
    copies = short(operation) in COPIES
    if not given or (given[-1].device == "cpu" and not copies):
        return None
    to_device = copies and given[-1].device == "cpu"
    return "transfer" if to_device or is_transfer(operation) else "sync"


def _moving_ms(copies: Sequence[Operation], limits: Limits | None) -> float:
    """The time in which the bytes themselves go over the bus."""
    rate = limits.pageable_bytes_per_s if limits else None
    moved = sum(copied_bytes(each) for each in copies if short(each) in COPIES)
    return moved / rate * 1e3 if rate else 0.0


def _shared_out(ms: float, least: dict[Line, float], spent: dict[Line, float]) -> dict[Line, float]:
    """First what moving takes, then by the time at each line; none gets more than that time."""
    room = {line: max(0.0, spent.get(line, 0.0)) for line in least}
    first = {line: min(room[line], moving) for line, moving in least.items()}
    scale = min(1.0, ms / sum(first.values())) if any(first.values()) else 1.0
    first = {line: part * scale for line, part in first.items()}
    left, free = ms - sum(first.values()), sum(room.values()) - sum(first.values())
    scale = min(1.0, left / free) if free > 0 else 0.0
    parts = {line: part + (room[line] - part) * scale for line, part in first.items()}
    return {line: part for line, part in parts.items() if part > 0}
