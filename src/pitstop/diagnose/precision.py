"""Precision: float32 work that a faster unit of the device could do, and what that would save."""

from pitstop.core.evidence import Evidence, Operation
from pitstop.core.ledger import Row
from pitstop.core.machine import Limits
from pitstop.diagnose.operations import short, tensors
from pitstop.diagnose.recording import Recording

MATRICES = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul"}
CONVOLUTIONS = {"convolution", "convolution_backward"}


def in_float32(evidence: Evidence, names: set[str]) -> list[Operation]:
    """The operations of these names that multiply float32."""
    return [each for each in evidence.operations if short(each) in names and _is_float32(each)]


def slow_rows(recording: Recording, names: set[str] | None = None) -> list[Row]:
    """The ledger's rows for precision left unused, of these operations or of all, dearest first."""
    rows = recording.ledger.rows if recording.ledger else ()
    found = [row for row in rows if row.cause == "precision"]
    chosen = [row for row in found if names is None or row.what in names]
    return sorted(chosen, key=lambda row: -row.ms)


def tf32_saves_ms(operations: list[Operation], limits: Limits | None) -> float | None:
    """What TF32 takes off these products at the measured rates; nothing where they are unknown."""
    if limits is None or not limits.fp32_flops or not limits.tf32_flops:
        return None
    flops = sum(each.flops for each in operations)
    return max(0.0, 1e3 * flops * (1 / limits.fp32_flops - 1 / limits.tf32_flops))


def _is_float32(operation: Operation) -> bool:
    kinds = {each.kind for each in tensors(operation)}
    return "float32" in kinds and not kinds & {"float16", "bfloat16", "float64"}
