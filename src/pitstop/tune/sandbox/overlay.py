"""Overlay: a folder that takes what a run writes, and looks like the disk it hides.

A file written to ``/a/b`` lies in ``FOLDER/files/a/b``. Reading prefers that file, and falls back
to the one of the user's. A file that the run deleted is only marked, by a name in ``FOLDER/gone``.
Both live on the disk, so that workers see what their parent wrote. Nothing here changes ``os``.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

Name = Any  # str, bytes, path or descriptor: whatever the functions of os take
NEVER = ("/dev", "/proc", "/sys")  # what lies there are no files
LINKS = "*"  # a mark that is no path: there are symbolic links of the run's own


class Overlay:
    """Where paths of the script are read from and written to; ``alone`` are left as they are."""

    def __init__(self, folder: Path, alone: Sequence[Path] = ()) -> None:
        self._files = os.path.realpath(folder / "files")
        self._gone = os.path.realpath(folder / "gone")
        os.makedirs(self._files, exist_ok=True)
        os.makedirs(self._gone, exist_ok=True)
        roots = (*NEVER, os.path.realpath(folder), *map(os.path.realpath, alone))
        self._alone = tuple(f"{root}{os.sep}" for root in roots)
        self._marks: tuple[int, frozenset[str]] = (0, frozenset())
        self._real = lru_cache(maxsize=4096)(os.path.realpath)  # of folders: asked for every file

    def visible(self, name: Name) -> Name:
        """Where the script must read a path from."""
        full = self.full(name)
        if full is None:
            return name
        if os.path.lexists(self._files + full) or self._is_gone(full):
            return self._files + full
        return full if LINKS in self._marked() or self._is_inside(name) else name

    def writable(self, name: Name, keep: bool = True) -> Name:
        """Where the script must write to; with ``keep``, what is there is there too."""
        full = self.full(name)
        if full is None:
            return name
        place = self._files + full
        if os.path.islink(place) and not self._holds(os.path.realpath(place)):
            return self.writable(os.path.realpath(place), keep)  # a link of ours to the user's file
        if os.path.lexists(place):
            return place
        kind = _kind(full) if not self._is_gone(full) else 0
        if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            return full  # a pipe or a device
        if not self._make_parent(full):
            return place  # its folder is missing, which the caller will find out
        if kind and keep:
            os.mkdir(place) if stat.S_ISDIR(kind) else shutil.copy2(full, place)
        return full if stat.S_ISDIR(kind) and not keep else place

    def exclusive(self, name: Name) -> Name:
        """Where to create a file that must not be there yet.

        If it is there, the system is not even asked: to ask would look like writing to it.
        """
        if os.path.lexists(self.visible(name)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        return self.writable(name, keep=False)

    def make_folder(self, name: Name, mode: int = 0o777) -> None:
        """Make a folder."""
        os.mkdir(self.exclusive(name), mode)

    def remove(self, name: Name) -> None:
        """Delete a file, or a link."""
        full, seen = self.full(name), self.visible(name)
        if full is None or seen == self._files + full:
            os.unlink(seen)
        elif os.path.isdir(full) and not os.path.islink(full):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        elif not os.path.lexists(full):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        self._mark(full)

    def remove_folder(self, name: Name) -> None:
        """Delete an empty folder."""
        full, seen = self.full(name), self.visible(name)
        if full is None:
            os.rmdir(seen)
        elif self.names(name):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
        elif seen == self._files + full:
            os.rmdir(seen)
        self._mark(full)

    def move(self, source: Name, target: Name) -> None:
        """Rename a file or a folder, over an existing file."""
        full, seen = self.full(source), self.visible(source)
        place = self._vacant(target) if os.path.lexists(seen) else seen
        if full is None or not self._shows_original(full):
            _rename(seen, place)
        elif os.path.isdir(seen):
            self._copy_tree(source, place)
            shutil.rmtree(self._files + full, ignore_errors=True)
        elif seen == self._files + full:
            _rename(seen, place)
        else:
            shutil.copy2(full, place, follow_symlinks=False)
        self._mark(full)

    def link(self, source: Name, target: Name) -> None:
        """A second name for a file; a copy here, since the first may be the user's."""
        shutil.copy2(self.visible(source), self.exclusive(target))

    def link_symbolically(self, source: Name, target: Name) -> None:
        """A symbolic link, to where the script sees its target now."""
        text = os.fsdecode(source)
        beside = self.full(target)
        if beside is not None:
            text = os.fsdecode(self.visible(os.path.join(os.path.dirname(beside), text)))
        os.symlink(text, self.exclusive(target))
        self._note(LINKS)

    def names(self, name: Name) -> list[str]:
        """What the script sees in a folder."""
        full = self.full(name)
        if full is None:
            return os.listdir(name)
        if os.path.islink(self._files + full):
            return self.names(self.original(os.path.realpath(self._files + full)))
        own = os.listdir(self._files + full) if os.path.isdir(self._files + full) else None
        if own is None and self._is_gone(full):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if own is not None and (self._is_gone(full) or not os.path.isdir(full)):
            return own
        marks = self._marked()
        users = [each for each in os.listdir(full) if os.path.join(full, each) not in marks]
        return list(dict.fromkeys([*users, *(own or ())]))

    def is_touched(self, name: Name) -> bool:
        """Whether a folder looks different from the user's."""
        full = self.full(name)
        return full is not None and (os.path.isdir(self._files + full) or bool(self._marked()))

    def original(self, place: str) -> str:
        """The path that the script knows a place of ours by."""
        return place.removeprefix(self._files) or os.sep if self._holds(place) else place

    def full(self, name: Name) -> str | None:
        """The absolute path, links of its folder resolved; ``None`` for what is left alone."""
        if isinstance(name, int):
            return None
        text = os.fsdecode(name)
        if not os.path.isabs(text):
            text = os.path.join(self.original(os.getcwd()), text)
        folder, last = os.path.split(os.path.normpath(text))
        folder = self._real(folder)
        if LINKS in self._marked() and not f"{folder}{os.sep}".startswith(self._alone):
            folder = self.original(os.path.realpath(self._files + folder))
        found = os.path.join(folder, last)
        return None if f"{found}{os.sep}".startswith(self._alone) else found

    def written(self) -> list[str]:
        """All files that were written, by the names that the script knows."""
        found = []
        for folder, _, names in os.walk(self._files):
            found += [self.original(os.path.join(folder, name)) for name in names]
        return sorted(found)

    def deleted(self) -> list[str]:
        """The files of the user's that the script would have deleted."""
        return sorted(self._marked() - {LINKS})

    def _holds(self, place: str) -> bool:
        return f"{place}{os.sep}".startswith(f"{self._files}{os.sep}")

    def _is_inside(self, name: Name) -> bool:
        """Whether a path begins in a folder that only we have, and the script has gone into."""
        return not os.path.isabs(name) and self._holds(os.getcwd())

    def _shows_original(self, full: str) -> bool:
        return os.path.lexists(full) and not self._is_gone(full)

    def _vacant(self, name: Name) -> Name:
        """Where something may be renamed to: a file there goes, a folder must be empty."""
        full = self.full(name)
        if full is None:
            return name
        if os.path.isdir(self.visible(name)):
            if self.names(name):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
            self._mark(full)
        self._make_parent(full)
        return self._files + full

    def _make_parent(self, full: str) -> bool:
        folder = os.path.dirname(full)
        if not os.path.isdir(self.visible(folder)):
            return False
        os.makedirs(self._files + folder, exist_ok=True)
        return True

    def _copy_tree(self, source: Name, place: Name) -> None:
        """Copy a folder as the script sees it."""
        os.makedirs(place, exist_ok=True)
        for each in self.names(source):
            inner = os.path.join(os.fsdecode(source), each)
            target = os.path.join(os.fsdecode(place), each)
            if os.path.isdir(self.visible(inner)):
                self._copy_tree(inner, target)
            else:
                shutil.copy2(self.visible(inner), target)

    def _mark(self, full: str | None) -> None:
        """Note that a file of the user's is deleted, as far as the script is concerned."""
        if full is not None and os.path.lexists(full):
            self._note(full)

    def _note(self, text: str) -> None:
        name = hashlib.blake2b(os.fsencode(text), digest_size=16).hexdigest()
        with contextlib.suppress(FileExistsError):
            os.symlink(text, os.path.join(self._gone, name))  # made in one go, unlike a file
        self._marks = 0, frozenset()

    def _is_gone(self, full: str) -> bool:
        marks = self._marked()
        while marks and full != os.path.dirname(full):
            if full in marks:
                return True
            full = os.path.dirname(full)
        return False

    def _marked(self) -> frozenset[str]:
        changed = os.stat(self._gone).st_mtime_ns
        if changed != self._marks[0]:
            found = (os.readlink(entry.path) for entry in os.scandir(self._gone))
            self._marks = changed, frozenset(found)
        return self._marks[1]


def _kind(path: str) -> int:
    """The mode bits of what is there; 0 for nothing."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def _rename(source: Name, target: Name) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:  # our folder may be on another disk than the script's
            raise
        shutil.move(source, target)
