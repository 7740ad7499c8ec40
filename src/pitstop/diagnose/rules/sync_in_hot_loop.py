"""PIT201 sync-in-hot-loop."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Ledger
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.reads import Read, number_loops, waiting_reads
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT201")
def sync_in_hot_loop(recording: Recording) -> Iterator[Finding]:
    """Python reads numbers out of tensors while the step waits."""
    ledger = recording.ledger
    if ledger is None:
        return
    for read in waiting_reads(recording, ledger) if ledger.device == "cuda" else ():
        often = f", {count(read.calls, 'time')} a step" if read.calls else ""
        message = f"{read.what} makes Python wait for the GPU{often}"
        message += f"; until its queue is full again it costs {cost_phrase(read.ms, ledger)}."
        yield _finding(message, read, ledger, "keep the tensor, and read it every hundred steps")
    for read in number_loops(recording, ledger) if ledger.device == "cpu" else ():
        cost = cost_phrase(read.ms, ledger)
        message = f"{read.what} reads {read.calls} numbers a step, one by one: {cost}."
        cure = "compute on the whole tensor and read once: .sum().item() or .tolist()"
        yield _finding(message, read, ledger, cure)


def _finding(message: str, read: Read, ledger: Ledger, cure: str) -> Finding:
    return Finding(
        message,
        span=span(read.where),
        cure=cure,
        confidence="measured",
        metrics=(Metric("reads", read.calls, "reads"), Metric("cost", read.ms, "ms")),
        saving=ledger.at_stake(read.ms),
        claims=read.claims,
    )
