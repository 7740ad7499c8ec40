"""Folders of a trial: where its files and its temporary files go, and how both are wiped.

A Pitstop that is killed cannot wipe what it has made: the next one does. Whoever uses a folder
holds a lock on a file in it, which the system takes back when that process ends, however it does.
"""

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

TRIAL, SEARCH = "pitstop-trial-", "pitstop-tune-"  # how the names begin
LOCK = "in-use"
OLD_S = 3600.0  # a younger one may just be in the making, by somebody who has not locked it yet
SHORT = Path("/tmp")  # noqa: S108 short enough for sockets
LONGEST_PATH = 48  # a socket's path has 107 bytes, of which 32 and our own 24 come after it


@contextlib.contextmanager
def temporary(prefix: str = TRIAL) -> Iterator[Path]:
    """A new folder, gone afterwards; multiprocessing puts sockets there."""
    usual = Path(tempfile.gettempdir())
    root = SHORT if len(str(usual)) > LONGEST_PATH and SHORT.is_dir() else usual
    sweep(root)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(lock)
        yield folder
    finally:
        os.close(lock)
        wipe(folder)


def sweep(root: Path) -> None:
    """Wipe what killed processes of this user have left here."""
    for prefix in (TRIAL, SEARCH):
        for folder in root.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):  # somebody else sweeps as well
                if _is_ours_and_old(folder):
                    _wipe_if_unused(folder)


def wipe(folder: Path) -> None:
    """Delete a folder, also one in which the script has made parts read-only."""
    if not folder.exists():
        return
    for root, _, _ in os.walk(folder):
        Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours_and_old(folder: Path) -> bool:
    about = folder.lstat()
    ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return ours and time.time() - about.st_mtime > OLD_S


def _wipe_if_unused(folder: Path) -> None:
    """One without a lock is of a Pitstop that knew none, and may be in use."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _take(lock):
            wipe(folder)
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    """Lock it; false where another process has, or where the system has no such locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
