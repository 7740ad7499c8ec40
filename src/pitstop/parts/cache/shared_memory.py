"""Shared memory without a name: it is gone when the last process that uses it is gone.

``memfd_create`` gives a file that lives in memory only. Unlike files in ``/dev/shm`` it needs no
clean-up after ``kill -9``, and the small ``/dev/shm`` of a container does not limit it. Another
process opens it as ``/proc/PID/fd/FD`` of its owner, so the same three numbers serve workers that
were forked, workers that were spawned, and the other ranks of a machine.
"""

import fcntl
import mmap
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.errors import PitstopError

WHOLE = (
    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE if sys.platform == "linux" else 0
)


@dataclass(frozen=True, slots=True)
class Handle:
    """What another process of this machine needs to open the memory while its owner lives."""

    pid: int
    descriptor: int
    size_bytes: int

    @property
    def path(self) -> Path:
        """Where Linux shows the file of another process."""
        return Path(f"/proc/{self.pid}/fd/{self.descriptor}")


def allocate(size_bytes: int) -> Handle:
    """Room for so many bytes; none of them takes memory before it is written."""
    if sys.platform != "linux":
        raise PitstopError("ram_cache needs Linux: elsewhere keep the samples in the dataset")
    descriptor = os.memfd_create("pitstop-ram-cache", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size_bytes)
    return Handle(os.getpid(), descriptor, size_bytes)


def open_to_write(handle: Handle) -> int:
    """A descriptor of this process for memory that is still being filled."""
    if handle.pid == os.getpid():
        return handle.descriptor
    return _open(handle, os.O_RDWR)


def finish(handle: Handle, size_bytes: int) -> Handle:
    """Give back what was not used, and let nobody write any more."""
    os.ftruncate(handle.descriptor, size_bytes)
    fcntl.fcntl(handle.descriptor, fcntl.F_ADD_SEALS, WHOLE)
    return Handle(handle.pid, handle.descriptor, size_bytes)


def close(handle: Handle) -> None:
    """Let nobody else open it. What is mapped stays until the last process unmaps it."""
    if handle.pid == os.getpid():  # a fork has descriptors of its own, which end with it
        os.close(handle.descriptor)


def map_to_read(handle: Handle) -> mmap.mmap:
    """The bytes as this process sees them. What it writes there, it alone sees."""
    own = handle.pid == os.getpid()
    descriptor = handle.descriptor if own else _open(handle, os.O_RDONLY)
    try:
        return mmap.mmap(
            descriptor, handle.size_bytes, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        )
    finally:
        if not own:
            os.close(descriptor)


def free_bytes() -> int:
    """Memory that is free now, within the limit of a container where there is one."""
    import psutil  # noqa: PLC0415 only who gives no budget needs it

    free = int(psutil.virtual_memory().available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    return min(free, limit - used)


def _open(handle: Handle, flags: int) -> int:
    try:
        return os.open(handle.path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise PitstopError(
            f"the RAM cache of process {handle.pid} cannot be opened ({error.strerror}): "
            "the process that built it must live on, on the same machine"
        ) from None
