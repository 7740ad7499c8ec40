"""PIT103 pageable-batches."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.facts.loading import feeding_loader, settings
from pitstop.diagnose.facts.transfers import are_pageable, blocking_transfers
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

BY_HAND = "keep the data in pinned memory: .pin_memory()"


@rule("PIT103")
def pageable_batches(recording: Recording) -> Iterator[Finding]:
    """Batches are copied to the GPU from memory that is not pinned."""
    ledger, evidence = recording.ledger, recording.evidence
    copies = [each for each in blocking_transfers(recording) if each.to_device]
    if ledger is None or not copies or not are_pageable(evidence):
        return
    loader = feeding_loader(evidence)
    loader = None if loader and loader.pinned else loader  # what it pins is not what is copied
    ms, size = sum(each.ms for each in copies), sum(each.copied_bytes for each in copies)
    yield Finding(
        f"{binary_bytes(size)} a step are copied to the GPU from memory that is not pinned, "
        f"which costs {cost_phrase(ms, ledger)}.",
        span=span(loader.made if loader else copies[0].where),
        cure=settings(loader, "pin_memory=True") if loader else BY_HAND,
        confidence="measured",
        metrics=(Metric("copied", size, "bytes"), Metric("copies", ms, "ms")),
        saving=ledger.at_stake(ms),
        claims=tuple(row for x in copies for row in ledger.chosen("transfer", where=x.where)),
        changes=("loader",) if loader else (),
    )
