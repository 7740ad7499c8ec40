"""Transfers: copies between host and GPU that Python waits for, by line, and what they cost."""

from dataclasses import dataclass

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.diagnose.facts.loading import feeding_loader
from pitstop.diagnose.facts.operations import by_line, tensors
from pitstop.diagnose.facts.waits import copied_bytes, is_transfer
from pitstop.diagnose.recording import Recording

TO_DEVICE, PAGEABLE = "Memcpy HtoD", "Pageable"  # as CUDA calls such a copy
WORTH_MENTIONING = 0.01  # of the step; a suspicion that costs less is cleared


@dataclass(frozen=True, slots=True)
class Transfer:
    """All waiting copies of one line in a step; ``ms`` is what the ledger has for that line."""

    where: Line
    to_device: bool
    copies: int
    copied_bytes: int
    ms: float


def copy_lines(recording: Recording) -> dict[Line, list[Operation]]:
    """The lines whose large copies between host and GPU make Python wait."""
    copies = [each for each in recording.evidence.operations if is_transfer(each)]
    return by_line(copies)


def blocking_transfers(recording: Recording) -> list[Transfer]:
    """The lines whose waiting copies are worth shortening, dearest first."""
    ledger = recording.ledger
    if ledger is None or ledger.device != "cuda":
        return []
    found = []
    for line, copies in copy_lines(recording).items():
        ms = ledger.total("transfer", "sync", "copy", where=line)
        if ledger.at_stake(ms) >= WORTH_MENTIONING:
            calls, size = sum(each.calls for each in copies), sum(map(copied_bytes, copies))
            found.append(Transfer(line, _starts_on_host(copies[0]), calls, size, ms))
    return sorted(found, key=lambda each: -each.ms)


def are_pageable(evidence: Evidence) -> bool:
    """Whether copies to the GPU are from memory that is not pinned.

    What CUDA says of most of them; else a loader that does not pin.
    """
    copies = [each for each in evidence.transfers if TO_DEVICE in each.name]
    if copies:
        pageable = sum(each.micros for each in copies if PAGEABLE in each.name)
        return 2 * pageable > sum(each.micros for each in copies)  # numbers are copied so as well
    loader = feeding_loader(evidence)
    return loader is not None and not loader.pinned


def _starts_on_host(operation: Operation) -> bool:
    """The source is the only tensor of ``_to_copy`` and the second of ``copy_``."""
    given = tensors(operation)
    return bool(given) and given[-1].device == "cpu"
