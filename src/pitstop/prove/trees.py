"""Trees: the base revision and the edit, each in a folder of its own, outside the user's tree.

What git knows of is copied. What it does not know of is the same in both: small files are copied,
and data, caches and built libraries are linked, so that the same relative paths lead to them.
Both lie side by side on one disk, and their names have the same length: neither has an advantage.
"""

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pitstop.core.errors import PitstopError
from pitstop.prove.git import SHORT, Repository
from pitstop.tune.sandbox.copied_tree import Tree

LARGE_BYTES = 4 * 2**20  # a file beyond this is data: it is linked, not copied
MANY_FILES, MANY_BYTES = 2000, 64 * 2**20  # likewise a folder that git does not know of
OURS = {".git", ".pitstop", "__pycache__"}  # never brought along


@dataclass(frozen=True, slots=True)
class Trees:
    """Both sides, and what they are."""

    base: Tree
    edit: Tree
    commit: str
    name: str  # of the edit, in words
    changed: tuple[str, ...]  # files that differ, relative to the top
    notes: tuple[str, ...] = ()


def lay_out(
    repository: Repository, base: str, patch: Path | None, started: Path, place: Path
) -> Trees:
    """Write both trees below ``place``; the command begins in the folders like ``started``."""
    commit = repository.commit(base)
    old, new = place / "base", place / "edit"
    for folder in (old, new):
        folder.mkdir()
    repository.export(commit, old)
    if patch:
        repository.export(commit, new)
        repository.apply(patch, new)
    else:
        for path in repository.tracked():
            _bring(repository.top / path, new / path)
    for folder in (old, new):
        _bring_the_rest(repository, folder)
    inside = started.resolve().relative_to(repository.top)
    for folder in (old, new):
        (folder / inside).mkdir(parents=True, exist_ok=True)
    top = str(repository.top)
    sides = [Tree(top, str(folder.resolve()), folder.resolve() / inside) for folder in (old, new)]
    name = f"{patch.name} on {commit[:SHORT]}" if patch else "the working tree"
    changed = tuple(sorted(_differences(old, new)))
    return Trees(sides[0], sides[1], commit, name, changed, tuple(_notes(repository)))


def _bring_the_rest(repository: Repository, target: Path) -> None:
    """What git does not know of, and submodules, as they are now."""
    for path in repository.untracked():
        source = repository.top / path
        if source.is_dir() and not source.is_symlink() and not _is_small(source):
            _link(source, target / path)
        else:
            _bring(source, target / path)
    for path in (*repository.ignored(), *repository.submodules()):
        _link(repository.top / path, target / path)


def _bring(source: Path, target: Path) -> None:
    """A copy of what is small, a link to what is large; links stay links."""
    if source.name in OURS or not os.path.lexists(source):
        return  # deleted in the working tree
    if source.is_dir() and not source.is_symlink():
        for each in source.iterdir():
            _bring(each, target / each.name)
        return
    if source.is_symlink() or source.stat().st_size <= LARGE_BYTES:
        _copy(source, target)
    else:
        _link(source, target)


def _copy(source: Path, target: Path) -> None:
    with suppress(FileExistsError):  # the base has a file of this name: that one counts
        target.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(target):
            shutil.copy2(source, target, follow_symlinks=False)


def _link(source: Path, target: Path) -> None:
    if source.name in OURS or not source.exists():
        return
    with suppress(FileExistsError, NotADirectoryError):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            target.rmdir() if not any(target.iterdir()) else None
        if not os.path.lexists(target):
            target.symlink_to(source.absolute())


def _is_small(folder: Path) -> bool:
    """Whether it may be copied whole."""
    files = bytes_ = 0
    for here, _, names in os.walk(folder):
        files += len(names)
        bytes_ += sum(Path(here, each).lstat().st_size for each in names[:MANY_FILES])
        if files > MANY_FILES or bytes_ > MANY_BYTES:
            return False
    return True


def _differences(old: Path, new: Path) -> Iterator[str]:
    """Files that are in one of the trees only, or not equal; linked ones are the same."""
    for here, there in ((old, new), (new, old)):
        for folder, _, names in os.walk(here):
            for name in names:
                path = Path(folder, name)
                other = there / path.relative_to(here)
                if not os.path.lexists(other) or (here == old and not _equal(path, other)):
                    yield str(path.relative_to(here))


def _equal(a: Path, b: Path) -> bool:
    if not (a.is_file() and b.is_file()):  # links that lead nowhere
        return a.is_symlink() and b.is_symlink() and a.readlink() == b.readlink()
    return a.samefile(b) or filecmp.cmp(a, b, shallow=False)


def _notes(repository: Repository) -> Iterator[str]:
    if found := repository.submodules():
        yield f"submodules are as they are checked out, on both sides: {', '.join(found)}"


def check_script(tree: Tree, words: tuple[str, ...], commit: str) -> None:
    """A script that the base does not have cannot be run there."""
    script = next((each for each in words if each.endswith(".py")), "")
    if script and not (tree.begins / script).exists():
        raise PitstopError(
            f"{script} is not in {commit[:SHORT]}: give a --base REV that has it, or a script "
            "that git does not know of, which is used on both sides"
        )
