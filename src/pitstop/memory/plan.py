"""Plan: what the launching process asks for in the script's process, and what comes back."""

from pathlib import Path

import msgspec

from pitstop.core.store import write_text
from pitstop.parts.memory.trace import Trace

BEGIN = "pitstop.memory.begin:begin"  # what ``profile`` calls in the script's process
SEEN = "memory.json"
LONGEST_S = 60.0  # of calls without training: a pipeline may call its model many times


class MemoryPlan(msgspec.Struct, frozen=True):
    """Travels as JSON."""

    folder: str
    real: bool = False  # two steps in earnest, where stand-ins do not do
    seconds: float = LONGEST_S

    def to_json(self) -> str:
        """The argument of ``begin``."""
        return msgspec.json.encode(self).decode()


class Seen(msgspec.Struct):
    """What was seen of the script."""

    trace: Trace
    training: bool
    device: str  # "cuda" or "cpu": where the script computes
    real: bool
    steps: int = 0  # of optimizers
    batch: int = 0  # samples in the first tensor that the model was called with; 0: none
    gpu: str = ""
    gpu_bytes: int = 0  # all that this GPU has
    free_bytes: int = 0  # what others leave of it
    measured_bytes: int = 0  # by the allocator, where the steps were real
    trouble: str = ""  # why it ended too early


def read_plan(text: str) -> MemoryPlan:
    """The plan that ``to_json`` wrote."""
    return msgspec.json.decode(text, type=MemoryPlan)


def write_seen(folder: Path, seen: Seen) -> None:
    """At the end of the script's process."""
    write_text(folder / SEEN, msgspec.json.encode(seen).decode())


def read_seen(folder: Path) -> Seen | None:
    """Nothing, where the script ended before its model was called."""
    path = folder / SEEN
    return msgspec.json.decode(path.read_bytes(), type=Seen) if path.is_file() else None
