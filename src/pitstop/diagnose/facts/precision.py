"""Precision: float32 work that a faster unit of the device could do, and what that would save."""

import math

from pitstop.core.evidence import Evidence, Operation, Settings
from pitstop.core.ledger import Cause, Row
from pitstop.core.machine import Limits
from pitstop.diagnose.facts.operations import short, tensors
from pitstop.diagnose.recording import Recording

MATRICES = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul"}
CONVOLUTIONS = {"convolution", "convolution_backward"}
PRODUCTS = MATRICES | CONVOLUTIONS
TAKEN_FROM: tuple[Cause, ...] = ("precision", "above", "repeated")  # another rate, another kernel
COMPUTES = 0.2  # of its time for its FLOPs alone: below, a product waits for bytes or is too small


def in_float32(evidence: Evidence, names: set[str]) -> list[Operation]:
    """The operations of these names that multiply float32."""
    return [each for each in evidence.operations if short(each) in names and _is_float32(each)]


def slow_rows(
    recording: Recording,
    names: set[str] | None = None,
    causes: tuple[Cause, ...] = ("precision",),
) -> list[Row]:
    """The ledger's rows for precision left unused, of these operations or of all, dearest first."""
    rows = recording.ledger.rows if recording.ledger else ()
    found = [row for row in rows if row.cause in causes]
    chosen = [row for row in found if names is None or row.what in names]
    return sorted(chosen, key=lambda row: -row.ms)


def without_tf32(settings: Settings) -> set[str]:
    """The operations that multiply float32 in full."""
    matrices = set() if settings.tf32_matmul else MATRICES
    return matrices | (set() if settings.tf32_cudnn else CONVOLUTIONS)


def saves_ms(
    operations: list[Operation], limits: Limits | None, flops: float | None
) -> float | None:
    """What another rate takes off these products at most; nothing where a rate is unknown."""
    if limits is None or not limits.fp32_flops or not flops:
        return None
    return sum(_saves_ms(each, limits, limits.fp32_flops, flops) for each in operations)


def _saves_ms(operation: Operation, limits: Limits, slow: float, fast: float) -> float:
    """It comes with other kernels: what computes for long may come down to its floor."""
    ms = (operation.device_micros or 0.0) / 1e3
    computing, faster = operation.flops / slow * 1e3, operation.flops / fast * 1e3
    if computing < COMPUTES * ms or faster >= computing:
        return max(0.0, min(ms, computing - faster))
    moving = operation.moved_bytes / (limits.copy_bytes_per_s or math.inf) * 1e3
    return max(0.0, ms - max(moving, faster))


def _is_float32(operation: Operation) -> bool:
    kinds = {each.kind for each in tensors(operation)}
    return "float32" in kinds and not kinds & {"float16", "bfloat16", "float64"}
