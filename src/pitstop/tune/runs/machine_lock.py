"""One search at a time: trials of one device run one after the other, those of another one too.

The lock is the system's own on an open file, so it ends with the process that holds it: a lock
that nobody holds any more cannot be left behind.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pitstop.core.folders import cache_folder

if sys.platform != "win32":
    import fcntl

_waits_s: list[float] = []


def clock() -> float:
    """Seconds by the clock, without those in which others had their turn: nobody's budget."""
    return time.monotonic() - sum(_waits_s)


@contextlib.contextmanager
def my_turn() -> Iterator[None]:
    """Wait until no other trial runs on the devices that this process may use."""
    try:
        path = cache_folder() / f"trial-{_devices()}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:  # nowhere to write: there can be no other one either
        yield
        return
    try:
        _wait(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _devices() -> str:
    """The GPUs that are visible, as part of a file name; all of them by default."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    return "".join(each if each.isalnum() else "-" for each in given) or "none"


def _wait(descriptor: int, path: Path) -> None:
    if not _taken(descriptor):
        begun = time.monotonic()
        holder = path.read_text(encoding="utf-8") or "another process"
        sys.stderr.write(f"pitstop: waiting for the trial of process {holder}\n")
        _taken(descriptor, wait=True)
        _waits_s.append(time.monotonic() - begun)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _taken(descriptor: int, wait: bool = False) -> bool:
    """Whether it is our turn; who waits is next, where one who looks now and then may never be."""
    if sys.platform == "win32":
        return True  # no such locks there
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
