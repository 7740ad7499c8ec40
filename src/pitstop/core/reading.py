"""Reading: whole files that others wrote; never a pipe, a device, or more than makes sense."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LFS_POINTER = b"version https://git-lfs"  # stands for a file that was never fetched


def read_regular(path: Path, largest_bytes: int) -> bytes:
    """The content of a regular file; an ``OSError`` says why there is none."""
    with open_regular(path) as stream:
        data = stream.read(largest_bytes + 1)  # also of a file that grows meanwhile
    if len(data) > largest_bytes:
        raise OSError(errno.EFBIG, f"larger than {largest_bytes / 1e6:g} MB", str(path))
    return data


def open_regular(path: Path) -> BinaryIO:
    """A regular file to read from; for files too long to be read whole."""
    stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 the caller closes it
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return stream


def _without_waiting(path: str, flags: int) -> int:
    """Open a pipe without its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
