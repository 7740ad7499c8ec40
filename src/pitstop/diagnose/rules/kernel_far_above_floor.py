"""PIT605 kernel-far-above-floor."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.attention import attentions
from pitstop.diagnose.facts.operations import short
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step; a kernel of one's own is not written for less
FAR = 3.0  # times the floor; a convolution at 1.5 is well done
LARGE_MS = 0.02  # a call below this is mostly the start of a kernel
WORK: tuple[Cause, ...] = ("above", "repeated", "precision", "floor")
GROUP_NORM = "group_norm"
OTHERWISE = ("rand", "normal", "bernoulli", "uniform", "c10d")  # bound by computing, or by others


@rule("PIT605")
def kernel_far_above_floor(recording: Recording) -> Iterator[Finding]:
    """An operation takes several times what its bytes and FLOPs need on this device.

    The floor is the larger of bytes over the measured bandwidth and FLOPs over the measured
    rate. Group norm of one sample is the classic: one block for each group leaves most of a
    large GPU idle. Another kernel, fusion with its neighbours or another layout closes the gap.

    Bad:
        hidden = torch.nn.functional.silu(torch.nn.functional.group_norm(hidden, 32))

    Good:
        hidden = pitstop.parts.group_norm_silu(hidden, 32)
    """
    ledger = recording.ledger
    if ledger is None or not ledger.floor_known or ledger.device != "cuda":
        return  # the threads of a CPU share it with others, and small work never reaches its rates
    alike: dict[tuple[str, Line], list[Row]] = defaultdict(list)
    for row in ledger.rows:
        if row.cause in WORK and row.what:
            alike[row.what, row.where].append(row)
    scores = {
        (short(operation), operation.where)
        for attention in attentions(recording.evidence)
        for operation, _ in attention.operations
    }
    for (what, where), rows in alike.items():
        told = (what, where) in scores  # by the rule for attention that is written out
        if not told and not any(word in what for word in OTHERWISE):
            yield from _finding(ledger, what, where, rows)


def _finding(ledger: Ledger, what: str, where: Line, rows: list[Row]) -> Iterator[Finding]:
    total_ms = sum(row.ms for row in rows)
    above_ms = sum(row.ms for row in rows if row.cause == "above")
    repeated_ms = sum(row.ms for row in rows if row.cause == "repeated")
    lost_ms, calls = above_ms + repeated_ms, _calls(rows)
    floor_ms = total_ms - lost_ms
    if ledger.at_stake(lost_ms) < WORTH_MENTIONING or total_ms < FAR * floor_ms:
        return
    if above_ms < repeated_ms:
        return  # one batched call comes first, and has a rule of its own
    if not floor_ms or not calls or total_ms / calls < LARGE_MS:
        return
    norm = GROUP_NORM in what
    part = "`pitstop.parts.group_norm_silu` in its place"
    yield Finding(
        f"`{what}` takes {cost_phrase(total_ms, ledger)} in {count(calls, 'call')}, "
        f"{total_ms / floor_ms:.0f} times what its bytes and FLOPs need.",
        span=span(where),
        cure=part if norm else "fuse it with its neighbours",
        confidence="measured",
        metrics=(Metric("time", total_ms, "ms"), Metric("floor", floor_ms, "ms")),
        saving=ledger.at_stake(above_ms),
        claims=tuple(row for row in rows if row.cause == "above"),
        changes=("fused-group-norm", "compile") if norm else ("compile",),
    )


def _calls(rows: list[Row]) -> int:
    """How often it ran: each module's calls stand in a row for each cause."""
    calls: dict[str, int] = defaultdict(int)
    for row in rows:
        calls[row.module] = max(calls[row.module], row.calls)
    return sum(calls.values())
