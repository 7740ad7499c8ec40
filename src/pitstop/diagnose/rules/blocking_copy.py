"""PIT203 blocking-copy."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import binary_bytes
from pitstop.diagnose.facts.loading import feeding_loader
from pitstop.diagnose.facts.transfers import are_pageable, blocking_transfers
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span


@rule("PIT203")
def blocking_copy(recording: Recording) -> Iterator[Finding]:
    """Python waits while a tensor is copied between host and GPU, and the GPU runs dry."""
    ledger = recording.ledger
    if ledger is None:
        return
    by_hand = are_pageable(recording.evidence) and feeding_loader(recording.evidence) is None
    for each in blocking_transfers(recording):
        way = "to the GPU" if each.to_device else "off the GPU"
        pinned = "pinned memory and non_blocking=True"
        event = f"{pinned}, and an event before the numbers are read"
        yield Finding(
            f"{binary_bytes(each.copied_bytes)} are copied {way}, and Python waits: "
            f"{cost_phrase(each.ms, ledger)}.",
            span=span(each.where),
            cure=pinned if each.to_device else event,
            confidence="measured",
            metrics=(
                Metric("copied", each.copied_bytes, "bytes"),
                Metric("cost", each.ms, "ms"),
            ),
            saving=ledger.at_stake(each.ms),
            claims=ledger.chosen("transfer", "sync", "copy", where=each.where),
            changes=("non-blocking",) if each.to_device and not by_hand else (),
        )
