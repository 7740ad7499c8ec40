"""Writing: several changed files written together or not at all.

A file is written in place: it stays the same file for its other names (hard links), its owner and
its rights. Until all is well, what was in it lies beside it, also when the machine stops meanwhile.
"""

import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.core.reading import read_regular

WRITABLE = 0o222  # by anybody: root may write a read-only file, and should not


@dataclass(frozen=True, slots=True)
class Change:
    """New bytes for a file, and those that it must still have."""

    path: Path
    before: bytes
    after: bytes


def may_be_written(path: Path) -> bool:
    """Whether a fix may change a file: a regular one, no link to one, and not read-only."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & WRITABLE) and os.access(path, os.W_OK)


def write_changes(changes: Sequence[Change]) -> None:
    """Write every file, with a copy of the old one beside it; if one fails, put the others back."""
    copies: list[tuple[Path, Change]] = []
    try:
        for change in changes:
            _check(change)
            copies.append((_copy_beside(change), change))
        for _, change in copies:
            _overwrite(change.path, change.after)
    except OSError as error:
        _put_back(copies)
        reason = error.strerror or error
        raise PitstopError(
            f"cannot write {error.filename}: {reason}; nothing was changed"
        ) from None
    except BaseException:
        _put_back(copies)
        raise
    for copy, _ in copies:
        copy.unlink()


def _check(change: Change) -> None:
    """Refuse symbolic links, and files that are no longer what was scanned."""
    if change.path.is_symlink():
        raise PitstopError(f"{change.path}: symbolic link, not written through; give its target")
    size = len(change.before)
    if change.path.stat().st_size != size or read_regular(change.path, size) != change.before:
        raise PitstopError(f"{change.path}: changed while it was scanned; run again")


def _copy_beside(change: Change) -> Path:
    """What the file holds, in a finished file of the same folder."""
    path = change.path
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".before", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(change.before)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _overwrite(path: Path, data: bytes) -> None:
    try:
        with path.open("r+b") as stream:
            stream.write(data)
            stream.truncate()
    except OSError as error:  # a full disk does not say of which file it is
        raise OSError(error.errno, error.strerror, str(path)) from None


def _put_back(copies: Sequence[tuple[Path, Change]]) -> None:
    """Undo; a copy is removed once its file holds the same."""
    for copy, change in copies:
        try:
            if change.path.read_bytes() != change.before:
                _overwrite(change.path, change.before)
        except OSError as error:
            raise PitstopError(
                f"{change.path} is half written: {error.strerror}; {copy} holds what was in it"
            ) from None
        copy.unlink()
