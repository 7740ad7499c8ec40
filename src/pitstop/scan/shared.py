"""Shared: the facts of all files, which every process reads once."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec


@dataclass(frozen=True, slots=True)
class Shared:
    """What all jobs of a pass may look at: here, or in a file that other processes find."""

    blobs: tuple[bytes, ...] = ()
    file: Path | None = None

    def read(self) -> tuple[bytes, ...]:
        """The facts of each file of the project, still packed."""
        if self.file is None:
            return self.blobs
        return msgspec.msgpack.decode(self.file.read_bytes(), type=tuple[bytes, ...])


@contextmanager
def left_in_a_file(blobs: tuple[bytes, ...]) -> Iterator[Shared]:
    """The same, small enough to be sent with every message."""
    with tempfile.TemporaryDirectory(prefix="pitstop-scan-") as folder:
        file = Path(folder) / "facts"
        file.write_bytes(msgspec.msgpack.encode(blobs))
        yield Shared(file=file)
