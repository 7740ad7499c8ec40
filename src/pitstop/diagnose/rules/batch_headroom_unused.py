"""PIT509 batch-headroom-unused."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import Cause
from pitstop.core.memory import peak_bytes
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes, percent
from pitstop.diagnose.facts.loading import feeding_loader
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

HALF_EMPTY = 0.45  # of the GPU's memory at most: twice the batch fits, with something to spare
WORTH_MENTIONING = 0.05  # of the step that a double batch could save
FIXED: tuple[Cause, ...] = ("launch", "python", "sync", "optimizer")  # costs that no sample adds to


@rule("PIT509")
def batch_headroom_unused(recording: Recording) -> Iterator[Finding]:
    """The GPU idles between small kernels, while memory would hold twice the batch.

    What a step costs whatever its batch (launches, Python, the optimizer) is halved for each
    sample by a double batch. Where batches are accumulated anyway, a larger one with fewer rounds
    trains the same; elsewhere the learning rate wants to be looked at. `pitstop memory SCRIPT`
    names the largest batch that fits.

    Bad:
        loader = torch.utils.data.DataLoader(clips, batch_size=1)

    Good:
        loader = torch.utils.data.DataLoader(clips, batch_size=4)
    """
    evidence, ledger = recording.evidence, recording.ledger
    loader = feeding_loader(evidence)
    room = max((gpu.memory_bytes for gpu in recording.machine.gpus), default=0)
    peak = peak_bytes(evidence)
    if ledger is None or loader is None or not loader.trains:
        return
    share = ledger.at_stake(ledger.total(*FIXED)) / 2
    if not peak or peak > HALF_EMPTY * room or share < WORTH_MENTIONING:
        return
    rounds = round(loader.batches / max(1, len(evidence.steps)))
    accumulated = f", and {rounds} batches are accumulated" if rounds > 1 else ""
    yield Finding(
        f"The step takes {binary_bytes(peak)} of {binary_bytes(room)}{accumulated}: twice the "
        f"batch fits, and would halve what launches, Python and optimizer cost each sample, "
        f"{percent(share)} at most.",
        span=span(loader.made),
        cure="a larger batch" + (", and fewer of them to a step" if rounds > 1 else ""),
        severity="note",
        confidence="measured",
        metrics=(Metric("peak", peak, "B"), Metric("of the GPU", room, "B")),
        changes=("batch-size",),
    )
