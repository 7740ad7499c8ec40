"""Writing: several changed files replaced together or not at all."""

import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.errors import PitstopError


@dataclass(frozen=True, slots=True)
class Change:
    """New bytes for a file, and those that it must still have."""

    path: Path
    before: bytes
    after: bytes


def write_changes(changes: Sequence[Change]) -> None:
    """Replace every file by a finished one beside it; if one fails, put the others back."""
    partial: list[tuple[Path, Path]] = []
    replaced: list[Change] = []
    try:
        for change in changes:
            _check(change)
            partial.append((_write_beside(change.path, change.after), change.path))
        for (new, path), change in zip(partial, changes, strict=True):
            new.replace(path)
            replaced.append(change)
    except OSError as error:
        for change in replaced:
            _write_beside(change.path, change.before).replace(change.path)
        reason = error.strerror or error
        raise PitstopError(
            f"cannot write {error.filename}: {reason}; nothing was changed"
        ) from None
    finally:
        for new, _ in partial:
            new.unlink(missing_ok=True)


def _check(change: Change) -> None:
    """Refuse symbolic links, and files that are no longer what was scanned."""
    if change.path.is_symlink():
        raise PitstopError(f"{change.path}: symbolic link, not written through; give its target")
    if change.path.read_bytes() != change.before:
        raise PitstopError(f"{change.path}: changed while it was scanned; run again")


def _write_beside(path: Path, data: bytes) -> Path:
    """A finished temporary file with the mode of ``path``, in the same folder."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        partial.chmod(stat.S_IMODE(path.stat().st_mode))
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return partial
