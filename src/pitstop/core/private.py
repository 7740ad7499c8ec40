"""Private: recordings are the user's alone, and lie where he asked for them."""

import errno
import os
from contextlib import suppress
from pathlib import Path

NAME = ".pitstop"
ALONE = 0o700  # a command line, and the names of a user's files, are nobody else's business
ALONE_FILE = 0o600


def private(path: str, flags: int) -> int:
    """An ``opener`` for ``open``: what it creates can be read by its owner only."""
    return os.open(path, flags, ALONE_FILE)


def own_folder(root: Path, *below: str) -> Path:
    """The folder ``.pitstop`` in ``root``, or one below it; made where it is not there.

    A project may come from a stranger: where one of them is a link, it is not followed, and a
    ``.gitignore`` that is there already stays as it is, whatever it is.
    """
    folder = root
    for name in (NAME, *below):
        folder /= name
        folder.mkdir(ALONE, exist_ok=True)
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "a link, which is not followed", str(folder))
    with suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(root / NAME / ".gitignore", flags, ALONE_FILE), "w") as stream:
            stream.write("*\n")
    return folder
