"""PIT301 fp32-matmul-without-tf32."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.precision import (
    TAKEN_FROM,
    in_float32,
    saves_ms,
    slow_rows,
    without_tf32,
)
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.02  # of the step; it is one line to write, and it rounds


@rule("PIT301")
def fp32_matmul_without_tf32(recording: Recording) -> Iterator[Finding]:
    """Float32 matrices are multiplied without TF32, which leaves the tensor cores idle."""
    ledger, settings = recording.ledger, recording.evidence.settings
    if ledger is None or ledger.device != "cuda" or settings is None:
        return
    names = without_tf32(settings)
    operations = in_float32(recording.evidence, names)
    rows = slow_rows(recording, names, TAKEN_FROM) if operations else []
    limits = recording.limits
    at_most = saves_ms(operations, limits, limits.tf32_flops if limits else None)
    left = sum(row.ms for row in rows if at_most is not None or row.cause == "precision")
    ms = left if at_most is None else min(left, at_most)
    if not rows or ledger.at_stake(ms) < WORTH_MENTIONING:
        return
    yield Finding(
        f"Float32 products run without TF32: up to {cost_phrase(ms, ledger)} could be saved.",
        span=span(rows[0].where),
        cure='torch.set_float32_matmul_precision("high")',
        confidence="measured",
        metrics=(Metric("above TF32", ms, "ms"),),
        saving=ledger.at_stake(ms),
        claims=tuple(rows),
        changes=("tf32",),
    )
