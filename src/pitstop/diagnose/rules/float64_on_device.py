"""PIT303 float64-on-device."""

from collections.abc import Iterator

from pitstop.core.evidence import Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import BUSY
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.operations import by_line, tensors
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.02  # of the step; small matrices and counters in float64 are no matter


@rule("PIT303")
def float64_on_device(recording: Recording) -> Iterator[Finding]:
    """Every step computes in float64, which most GPUs do 32 to 64 times slower than float32."""
    ledger = recording.ledger
    if ledger is None or ledger.device != "cuda":
        return
    lines = by_line(each for each in recording.evidence.operations if _is_double(each))
    costs = {
        line: min(
            sum(each.device_micros or 0.0 for each in operations) / 1e3,
            ledger.total(*BUSY, where=line),
        )
        for line, operations in lines.items()
    }
    ms = sum(costs.values())
    if not costs or ledger.at_stake(ms) < WORTH_MENTIONING:
        return
    yield Finding(
        f"{count(len(costs), 'line')} of the step compute in float64 on the GPU: "
        f"{cost_phrase(ms, ledger)}.",
        span=span(max(costs, key=lambda line: costs[line])),
        cure="make the tensors float32 where they come from",
        confidence="measured",
        metrics=(Metric("in float64", ms, "ms"),),
        saving=ledger.at_stake(ms),
        claims=tuple(row for line in costs for row in ledger.chosen(*BUSY, where=line)),
    )


def _is_double(operation: Operation) -> bool:
    """Whether it computes on float64 tensors of the GPU that are more than one number."""
    given = [each for each in tensors(operation) if each.kind == "float64"]
    return any(each.device == "cuda" and each.sizes for each in given)
