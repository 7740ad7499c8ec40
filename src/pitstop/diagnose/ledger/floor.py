"""Floor: the least time an operation takes on a device, by its bytes and FLOPs."""

from dataclasses import dataclass

from pitstop.core.evidence import Operation, Settings
from pitstop.core.machine import Limits

CONVOLUTION = "convolution"


@dataclass(frozen=True, slots=True)
class Floor:
    """Milliseconds for the same work: in the precision it used, and in the device's fastest."""

    used_ms: float
    best_ms: float


def floor_of(
    operation: Operation, ms: float, limits: Limits | None, settings: Settings | None, cores: int
) -> Floor | None:
    """The floor of one operation that took ``ms``; nothing where a ceiling is missing."""
    if limits is None or not limits.copy_bytes_per_s:
        return None
    moving = operation.moved_bytes / limits.copy_bytes_per_s * 1e3
    if not operation.flops:
        return Floor(min(ms, moving), min(ms, moving))
    settings = settings or Settings()
    known = limits.device == "cpu" and cores and settings.threads
    share = min(1.0, settings.threads / cores) if known else 1.0
    used, best = rate_used(operation, limits, settings), rate_best(limits)
    if not used or not best:
        return None
    slow = max(moving, operation.flops / (used * share) * 1e3)
    fast = max(moving, operation.flops / (max(used, best) * share) * 1e3)
    return Floor(min(ms, slow), min(ms, fast))


def rate_used(operation: Operation, limits: Limits, settings: Settings) -> float | None:
    """FLOP/s of the precision that the operation ran in."""
    kind = operation.shapes.partition("[")[0]
    if kind == "bfloat16":
        return limits.bf16_flops or limits.fp32_flops
    if kind == "float16":
        return limits.fp16_flops or limits.fp32_flops
    convolves = CONVOLUTION in operation.name
    if settings.tf32_cudnn if convolves else settings.tf32_matmul:
        return limits.tf32_flops or limits.fp32_flops
    return limits.fp32_flops


def rate_best(limits: Limits) -> float | None:
    """FLOP/s of the fastest precision that this device was measured in."""
    rates = (limits.bf16_flops, limits.fp16_flops, limits.tf32_flops, limits.fp32_flops)
    return max((rate for rate in rates if rate), default=None)
