"""GPU architectures inside a compiled library, read from its fat binary headers.

nvcc puts the device code of a library into containers that start with a magic number. Each
container holds entries, PTX or machine code, whose headers name the architecture. We hop from
header to header, so a library of a gigabyte takes milliseconds, and ``cuobjdump`` is not needed.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

MAGIC = struct.pack("<I", 0xBA55ED50)
CONTAINER = struct.Struct("<4xHHQ")  # magic, version, header size, size of the entries
ENTRY = struct.Struct("<HHIQ12xI")  # kind, -, header size, data size, ..., architecture
PREFIXES = {1: "compute_", 2: "sm_"}  # kind of entry: PTX, machine code


def library_archs(path: Path) -> set[str]:
    """Architectures such as ``sm_90`` and ``compute_90`` in one .so, .pyd or .dll."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return set(_archs(data))
    except (OSError, ValueError):  # unreadable, or empty, which mmap refuses
        return set()


def _archs(data: mmap.mmap) -> Iterator[str]:
    start = data.find(MAGIC)
    while 0 <= start <= len(data) - CONTAINER.size:
        version, header_size, size = CONTAINER.unpack_from(data, start)
        end = start + header_size + size
        if version == 1 and header_size == CONTAINER.size and end <= len(data):
            yield from _entries(data, start + header_size, end)
        else:
            end = start + len(MAGIC)  # the four bytes were something else
        start = data.find(MAGIC, end)


def _entries(data: mmap.mmap, start: int, end: int) -> Iterator[str]:
    while start + ENTRY.size <= end:
        kind, _, header_size, size, arch = ENTRY.unpack_from(data, start)
        if kind not in PREFIXES or header_size < ENTRY.size:
            return
        yield f"{PREFIXES[kind]}{arch}"
        start += header_size + size


def sorted_archs(archs: set[str]) -> tuple[str, ...]:
    """Architectures in the order of their numbers, machine code before PTX."""
    return tuple(sorted(archs, key=lambda arch: (arch.startswith("c"), len(arch), arch)))
