"""PIT508 checkpointing-not-needed."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.calls import CallTree, backward_passes, call_tree, lines_of, stretch
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.recording import Recording

WORTH_MENTIONING = 0.05  # of the step spent computing again; less is a fair price for memory
FITS = 0.9  # of the GPU's memory that a run may plan with; the rest is fragments and spikes
WRITTEN = 1 / 3  # of what operations move is written: most read two tensors to make one


@rule("PIT508")
def checkpointing_not_needed(recording: Recording) -> Iterator[Finding]:
    """Activations are computed again in the backward pass, though memory could hold them.

    Checkpointing pays a second forward pass for memory. Where the GPU has room for what would be
    kept, that pass is for nothing; checkpointing only the largest blocks is a middle way. What
    would be kept is estimated from the bytes that the recomputed operations write.

    Bad:
        x = x + torch.utils.checkpoint.checkpoint(self.attend, x, use_reentrant=False)

    Good:
        x = x + self.attend(x)
    """
    evidence, ledger = recording.evidence, recording.ledger
    room = max((gpu.memory_bytes for gpu in recording.machine.gpus), default=0)
    peak = max((each.gpu_peak_bytes or 0 for each in evidence.memory), default=0)
    if ledger is None or not room or not peak:
        return
    tree = call_tree(evidence)
    again = tree.outermost([each for each, call in enumerate(tree.calls) if call.recomputed])
    ms = tree.ms(sum(tree.micros[each] - tree.backward_micros[each] for each in again), ledger)
    kept = _written_bytes(recording, tree, set(again)) / max(1, backward_passes(evidence))
    if ledger.share(ms) < WORTH_MENTIONING or peak + kept > FITS * room:
        return
    yield Finding(
        f"Checkpointing computes {of_step(ms, ledger)} again; without it the peak of "
        f"{binary_bytes(peak)} would be about {binary_bytes(peak + kept)} of {binary_bytes(room)}.",
        span=stretch(lines_of(tree, again[:1])),
        cure="switch checkpointing off, or keep it for the largest blocks alone",
        confidence="suspected",  # the time is measured, the memory estimated
        metrics=(Metric("computed again", ms, "ms"), Metric("kept instead", kept, "B")),
        saving=ledger.share(ms),
        changes=("checkpointing-off",),
    )


def _written_bytes(recording: Recording, tree: CallTree, again: set[int]) -> float:
    """What the recomputed operations of the whole step write."""
    inside = {
        each for each in range(len(tree.calls)) if again.intersection((each, *tree.above(each)))
    }
    operations = recording.evidence.operations
    return WRITTEN * sum(
        each.moved_bytes for each in operations if each.call in inside and not each.backward
    )
