"""PIT502 memory-grows."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.facts.growth import growth_bytes
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label, span

VISIBLE_BYTES = 2**20  # a step; less is lost in the noise of a process's memory
CONFIRMED = 0.5  # of what is kept must show as growth; pages that were free before hide the rest


@rule("PIT502")
def memory_grows(recording: Recording) -> Iterator[Finding]:
    """Memory grows from step to step: each leaves tensors behind.

    Outputs on a list, a history without an end, a cache keyed by what never comes again. What is
    only replaced in the next step, or fills up and stops, does not count.

    Bad:
        for batch in train_loader:
            outputs.append(model(batch).detach())

    Good:
        for batch in train_loader:
            error += metric(model(batch).detach())
    """
    evidence = recording.evidence
    growth = growth_bytes(evidence)
    if growth is None:
        return
    for kept in evidence.kept:
        confirmed = growth >= CONFIRMED * kept.held_bytes
        if kept.graph or kept.held_bytes < VISIBLE_BYTES or not confirmed:
            continue
        line = kept.kept_at if kept.kept_at.path else kept.where
        holder = f" by `{kept.holder}`" if kept.holder else ""
        yield Finding(
            f"Memory grows by {binary_bytes(growth)} a step: {binary_bytes(kept.held_bytes)} made "
            f"at {label(kept.where)} are kept{holder}.",
            span=span(line),
            cure="keep what is needed of it, not the tensors of every step",
            confidence="measured",
            metrics=(
                Metric("growth of a step", growth, "B"),
                Metric("kept by each step", kept.held_bytes, "B"),
            ),
            saved_bytes=kept.held_bytes * len(evidence.steps),
        )
