"""PIT506 memory-fragmented."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.memory import peak_bytes, undisturbed
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.recording import Recording

NEARLY_FULL = 0.8  # of the GPU's memory reserved; before that fragments do no harm
IN_FRAGMENTS = 0.3  # of what is reserved and never allocated at once


@rule("PIT506")
def memory_fragmented(recording: Recording) -> Iterator[Finding]:
    """The GPU is nearly full, but much of it is fragments that no tensor fits into.

    Changing shapes leave gaps of other sizes behind. `expandable_segments` lets the allocator
    join them; equal shapes from step to step avoid them.

    Bad:
        command = "python train.py"

    Good:
        command = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
    """
    memory = list(undisturbed(recording.evidence))
    reserved = max((each.gpu_reserved_bytes or 0 for each in memory), default=0)
    peak = peak_bytes(recording.evidence)
    room = max((gpu.memory_bytes for gpu in recording.machine.gpus), default=0)
    if not room or not peak or reserved < NEARLY_FULL * room:
        return
    if reserved - peak < IN_FRAGMENTS * reserved:
        return
    yield Finding(
        f"{binary_bytes(reserved)} of {binary_bytes(room)} are reserved, but at most "
        f"{binary_bytes(peak)} were ever in use: the rest is fragments.",
        cure="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        confidence="measured",
        metrics=(Metric("reserved", reserved, "B"), Metric("in use at most", peak, "B")),
        saved_bytes=reserved - peak,
        changes=("allocator",),
    )
