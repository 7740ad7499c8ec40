"""Folders of a trial: where its files and its temporary files go, and how both are wiped."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "pitstop-trial-"
SHORT = Path("/tmp")  # noqa: S108 short enough for sockets
LONGEST_PATH = 48  # a socket's path has 107 bytes, of which 32 and our own 24 come after it


@contextlib.contextmanager
def temporary(prefix: str = PREFIX) -> Iterator[Path]:
    """A new folder, gone afterwards; multiprocessing puts sockets there."""
    short = len(tempfile.gettempdir()) > LONGEST_PATH and SHORT.is_dir()
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=SHORT if short else None))
    try:
        yield folder
    finally:
        wipe(folder)


def wipe(folder: Path) -> None:
    """Delete a folder, also one in which the script has made parts read-only."""
    if not folder.exists():
        return
    for root, _, _ in os.walk(folder):
        Path(root).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
