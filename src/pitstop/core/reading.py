"""Reading: whole files that others wrote; never a pipe, a device, or more than makes sense."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, largest_bytes: int) -> bytes:
    """The content of a regular file; an ``OSError`` says why there is none."""
    with open(path, "rb", opener=_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = stream.read(largest_bytes + 1)  # also of a file that grows meanwhile
    if len(data) > largest_bytes:
        raise OSError(errno.EFBIG, f"larger than {largest_bytes / 1e6:g} MB", str(path))
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Open a pipe without its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
