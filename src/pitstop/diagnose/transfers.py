"""Transfers: copies between host and GPU that Python waits for, by line, and what they cost."""

from dataclasses import dataclass

from pitstop.core.evidence import Line, Operation
from pitstop.diagnose.operations import by_line, short, tensors
from pitstop.diagnose.recording import Recording

COPIES = {"_to_copy", "copy_"}
LARGE_BYTES = 64 * 2**10  # smaller ones are numbers being read: their wait is a synchronisation
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
    copies = [each for each in recording.evidence.operations if _is_transfer(each)]
    return by_line(copies)


def blocking_transfers(recording: Recording) -> list[Transfer]:
    """The lines whose waiting copies are worth shortening, dearest first."""
    ledger = recording.ledger
    if ledger is None or ledger.device != "cuda":
        return []
    found = []
    for line, copies in copy_lines(recording).items():
        ms = ledger.total("transfer", "sync", "copy", where=line)
        if ledger.share(ms) >= WORTH_MENTIONING:
            calls, size = sum(each.calls for each in copies), sum(map(_copied_bytes, copies))
            found.append(Transfer(line, _starts_on_host(copies[0]), calls, size, ms))
    return sorted(found, key=lambda each: -each.ms)


def _is_transfer(operation: Operation) -> bool:
    if not operation.waits or short(operation) not in COPIES or not operation.calls:
        return False
    return _copied_bytes(operation) >= LARGE_BYTES * operation.calls


def _copied_bytes(operation: Operation) -> int:
    """A copy reads and writes each byte; it crosses the bus once."""
    return operation.moved_bytes // 2


def _starts_on_host(operation: Operation) -> bool:
    """The source is the only tensor of ``_to_copy`` and the second of ``copy_``."""
    given = tensors(operation)
    return bool(given) and given[-1].device == "cpu"
