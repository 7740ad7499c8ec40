"""Inspection: the lines that the inspector wrote, read back as typed values."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from pitstop.core.evidence import (
    Evidence,
    Kept,
    Kernel,
    Line,
    ModuleCall,
    Operation,
    Parameters,
    Sampled,
)


def read_inspection(notes: Sequence[dict[str, Any]]) -> Evidence:
    """Evidence with the last inspected step and all samples filled in."""
    inspected = [note for note in notes if "inspected" in note]
    last = inspected[-1] if inspected else {}
    return Evidence(
        operations=tuple(_operation(row) for row in last.get("operations", ())),
        calls=tuple(_call(row) for row in last.get("calls", ())),
        kernels=tuple(Kernel(*row) for row in last.get("kernels", ())),
        kept=tuple(Kept(Line(*row[:3]), row[3]) for row in last.get("kept", ())),
        sampled=_sampled(notes),
        parameters=_parameters(last),
    )


def _operation(row: list[Any]) -> Operation:
    name, path, line, function, call, shapes, calls, micros, device, moved, flops = row
    where = Line(path, line, function)
    return Operation(name, where, shapes, calls, micros, device, moved, flops, call)


def _call(row: list[Any]) -> ModuleCall:
    path, kind, file, line, function, parent, shapes, inputs, frozen = row
    identity = tuple((address, version) for address, version in inputs)
    return ModuleCall(path, kind, Line(file, line, function), parent, shapes, identity, frozen)


def _sampled(notes: Sequence[dict[str, Any]]) -> tuple[Sampled, ...]:
    counts: Counter[Line] = Counter()
    for note in notes:
        if "sampled" in note:
            for path, line, function, count in note["lines"]:
                counts[Line(path, line, function)] += count
    return tuple(Sampled(line, count) for line, count in counts.most_common())


def _parameters(note: dict[str, Any]) -> Parameters | None:
    return msgspec.convert(note["parameters"], Parameters) if "parameters" in note else None
