"""PIT605 kernel-far-above-floor."""

from collections import defaultdict
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = {"cuda": 0.05, "cpu": 0.20}  # of the step; a CPU's ceilings are less certain
FAR = {"cuda": 3.0, "cpu": 20.0}  # times the floor; a convolution at 1.5 is well done
LARGE_MS = {"cuda": 0.02, "cpu": 5.0}  # a call below this is mostly the start of a kernel
WORK: tuple[Cause, ...] = ("above", "precision", "floor")
GROUP_NORM = "group_norm"
OTHERWISE = ("rand", "normal", "bernoulli", "uniform", "c10d")  # bound by computing, or by others
CONFIRMED = 0.5  # of its part of the step must be seen by sampling too: one pause can fool a clock


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
    if ledger is None or not ledger.floor_known:
        return
    alike: dict[tuple[str, Line], list[Row]] = defaultdict(list)
    for row in ledger.rows:
        if row.cause in WORK and row.what:
            alike[row.what, row.where].append(row)
    for (what, where), rows in alike.items():
        if not any(word in what for word in OTHERWISE):
            found = _finding(ledger, what, where, rows)
            yield from (each for each in found if _is_confirmed(recording, each, where))


def _finding(ledger: Ledger, what: str, where: Line, rows: list[Row]) -> Iterator[Finding]:
    total_ms = sum(row.ms for row in rows)
    above_ms = sum(row.ms for row in rows if row.cause == "above")
    floor_ms, calls = total_ms - above_ms, max(row.calls for row in rows)
    device = ledger.device
    if ledger.share(above_ms) < WORTH_MENTIONING[device] or total_ms < FAR[device] * floor_ms:
        return
    if not floor_ms or not calls or total_ms / calls < LARGE_MS[device]:
        return
    norm = GROUP_NORM in what
    yield Finding(
        f"`{what}` takes {of_step(total_ms, ledger)} in {count(calls, 'call')}, "
        f"{total_ms / floor_ms:.0f} times what its bytes and FLOPs need.",
        span=span(where),
        cure="the part `group_norm_silu`" if norm else "fuse it with its neighbours",
        confidence="measured",
        metrics=(Metric("time", total_ms, "ms"), Metric("floor", floor_ms, "ms")),
        saving=ledger.share(above_ms),
        changes=("fused-group-norm", "compile") if norm else ("compile",),
    )


def _is_confirmed(recording: Recording, finding: Finding, where: Line) -> bool:
    """On a CPU the inspected step's clock also counts pauses; samples come from many steps."""
    if recording.ledger is None or recording.ledger.device != "cpu":
        return True
    sampled = recording.evidence.sampled
    seen = sum(each.samples for each in sampled if each.where == where)
    return seen > CONFIRMED * (finding.saving or 0.0) * sum(each.samples for each in sampled)
