"""PIT302 fp32-where-bf16-fits."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.precision import (
    PRODUCTS,
    TAKEN_FROM,
    in_float32,
    saves_ms,
    slow_rows,
    without_tf32,
)
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step: another precision must be tried and its numbers watched


@rule("PIT302")
def fp32_where_bf16_fits(recording: Recording) -> Iterator[Finding]:
    """The model computes in float32 on a GPU that is faster in bfloat16.

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
    if ledger is None or ledger.device != "cuda" or settings is None or settings.autocast:
        return  # few CPUs have units for it, and what is small enough for one gains nothing
    rows = slow_rows(recording)
    if not rows or not in_float32(recording.evidence, PRODUCTS):
        return
    plain = in_float32(recording.evidence, without_tf32(settings))
    limits = recording.limits
    at_most = saves_ms(plain, limits, limits.bf16_flops if limits else None)
    left = sum(row.ms for row in slow_rows(recording, PRODUCTS, TAKEN_FROM))
    ms = max(sum(row.ms for row in rows), min(left, at_most or 0.0))
    if ledger.at_stake(ms) < WORTH_MENTIONING:
        return
    yield Finding(
        f"The model computes in float32; in bfloat16 its products would take up to "
        f"{cost_phrase(ms, ledger)} less.",
        span=span(rows[0].where),
        cure='with torch.autocast("cuda", torch.bfloat16): around the forward pass',
        confidence="measured",
        metrics=(Metric("above bfloat16", ms, "ms"),),
        saving=ledger.at_stake(ms),
        claims=(*rows, *slow_rows(recording, PRODUCTS, TAKEN_FROM)),
        changes=("bf16",),
    )
