"""PIT508 checkpointing-not-needed."""

from collections.abc import Iterator

from pitstop.core.evidence import Line, Operation
from pitstop.core.finding import Finding, Metric
from pitstop.core.memory import peak_bytes
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.facts.calls import backward_passes, call_tree, timed
from pitstop.diagnose.ledger.behind import rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step spent computing again; less is a fair price for memory
FITS = 0.9  # of the GPU's memory that a run may plan with; the rest is fragments and spikes
WRITTEN = 1 / 3  # of what operations move is written: most read two tensors to make one


@rule("PIT508")
def checkpointing_not_needed(recording: Recording) -> Iterator[Finding]:
    """Activations are computed again in the backward pass, though memory could hold them.

    Checkpointing pays a second forward pass for memory. Where the GPU has room for what would be
    kept, that pass is for nothing; the part `selective_checkpoints` is a middle way, and keeps what
    fits. What would be kept is estimated from the bytes that the recomputed operations write;
    `pitstop memory SCRIPT` tells it before the run.

    Bad:
        x = x + torch.utils.checkpoint.checkpoint(self.attend, x, use_reentrant=False)

    Good:
        x = x + self.attend(x)
    """
    evidence, ledger = recording.evidence, recording.ledger
    room = max((gpu.memory_bytes for gpu in recording.machine.gpus), default=0)
    peak = peak_bytes(evidence)
    if ledger is None or not room or not peak:
        return
    again = [(each, micros) for each, micros in timed(evidence) if _is_recomputed(each)]
    ms = call_tree(evidence).ms(sum(micros for _, micros in again), ledger)
    written = WRITTEN * sum(each.moved_bytes for each, micros in again if micros)  # no view writes
    kept = written / max(1, backward_passes(evidence))
    if ledger.at_stake(ms) < WORTH_MENTIONING or peak + kept > FITS * room:
        return
    yield Finding(
        f"Checkpointing computes {cost_phrase(ms, ledger)} again; without it the peak of "
        f"{binary_bytes(peak)} would be about {binary_bytes(peak + kept)} of {binary_bytes(room)}.",
        span=span(_first_line(recording, again)),
        cure="switch checkpointing off, or keep it where it saves most: `selective_checkpoints`",
        confidence="suspected",  # the time is measured, the memory estimated
        metrics=(Metric("computed again", ms, "ms"), Metric("kept instead", kept, "B")),
        saving=ledger.at_stake(ms),
        claims=rows_behind(ledger, [each for each, _ in again]),
        changes=("checkpointing-off", "selective-checkpoints"),
    )


def _is_recomputed(operation: Operation) -> bool:
    """Whether it is an operation of a forward pass, in the midst of a backward one."""
    return operation.phase == "backward" and not operation.backward


def _first_line(recording: Recording, again: list[tuple[Operation, float]]) -> Line:
    """Where a module is called again; where only functions are, the dearest operation's line."""
    called = (call.where for call in recording.evidence.calls if call.recomputed)
    return next(called, max(again, key=lambda each: each[1])[0].where)
