"""Folders of a trial: where its files and its temporary files go, and how both are wiped."""

import os
import shutil
import tempfile
from pathlib import Path

SCRATCH = "scratch"  # in the folder of a trial
PREFIX = "pitstop-trial-"
SHORT = Path("/tmp")  # noqa: S108 short enough for sockets
LONGEST_PATH = 50  # a socket's path has 107 bytes, of which 32 and our own 22 come after it


def temporary() -> Path:
    """A new folder for temporary files; multiprocessing puts sockets there."""
    if len(tempfile.gettempdir()) > LONGEST_PATH and SHORT.is_dir():
        return Path(tempfile.mkdtemp(prefix=PREFIX, dir=SHORT))
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def wipe(folder: Path) -> None:
    """Delete a folder, also one in which the script has made parts read-only."""
    if not folder.exists():
        return
    for root, _, _ in os.walk(folder):
        Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
