"""PIT302 fp32-where-bf16-fits."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.place import span
from pitstop.diagnose.precision import CONVOLUTIONS, MATRICES, in_float32, slow_rows
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.05  # of the step: another precision must be tried and its numbers watched
FASTER_ON_A_CPU = 2.0  # bf16 over fp32 as measured; only a CPU with units for it gets there
WORTH_ON_A_CPU = 0.10  # of the step there, where conversions cost more than on a GPU


@rule("PIT302")
def fp32_where_bf16_fits(recording: Recording) -> Iterator[Finding]:
    """The model computes in float32 on a device that is faster in bfloat16.

    Autocast keeps the weights and the sensitive operations in float32 and needs no gradient
    scaler. It moves half the bytes as well. The saving is what the measured rates allow at
    most; conversions take their part of it.

    Bad:
        loss = criterion(model(clip), target)

    Good:
        with torch.autocast("cuda", torch.bfloat16):
            loss = criterion(model(clip), target)
    """
    ledger, settings = recording.ledger, recording.evidence.settings
    if ledger is None or settings is None or settings.autocast:
        return
    rows = slow_rows(recording)
    if not rows or not in_float32(recording.evidence, MATRICES | CONVOLUTIONS):
        return
    on_cpu = ledger.device == "cpu"
    ms = sum(row.ms for row in rows)
    if ledger.share(ms) < (WORTH_ON_A_CPU if on_cpu else WORTH_MENTIONING):
        return
    if on_cpu and not _has_units(recording):
        return
    yield Finding(
        f"The model computes in float32; in bfloat16 its products would take up to "
        f"{of_step(ms, ledger)} less.",
        span=span(rows[0].where),
        cure=f'with torch.autocast("{ledger.device}", torch.bfloat16): around the forward pass',
        severity="note" if on_cpu else "warning",
        confidence="measured",
        metrics=(Metric("above bfloat16", ms, "ms"),),
        saving=ledger.share(ms),
        changes=("bf16",),
    )


def _has_units(recording: Recording) -> bool:
    limits = recording.limits
    if limits is None or not limits.fp32_flops or not limits.bf16_flops:
        return False
    return limits.bf16_flops >= FASTER_ON_A_CPU * limits.fp32_flops
