"""Copied tree: a command that runs in a copy of the user's tree imports nothing from the tree.

A package that is installed as editable leads to the user's own files, wherever the command runs.
So do paths that a script spells out. Whatever an import finds there is taken from the copy.
The interpreter of the script reads this: it needs nothing that is not in Python itself.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the user's tree. What is large or unknown to git is linked in it."""

    of: str  # the user's
    copy: str
    begins: Path  # the folder of the copy in which the command begins

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """A command line with the paths of the copy in place of the user's."""
        return tuple(self._word(each) for each in words)

    def environment(self) -> dict[str, str]:
        """The variables that name folders of the tree, with those of the copy."""
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        moved = os.pathsep.join(led(each, self.of, self.copy) for each in paths)
        return {"PYTHONPATH": moved} if moved else {}

    def _word(self, word: str) -> str:
        option, equals, value = word.rpartition("=")
        return f"{option}{equals}{led(value, self.of, self.copy)}"


def led(path: str, tree: str, copy: str) -> str:
    """The path in the copy, if it is of the tree and the copy has a file or folder of its own."""
    if not os.path.isabs(path):
        return path
    full = os.path.realpath(path)
    if full != tree and not full.startswith(f"{tree}{os.sep}"):
        return path
    there = copy + full.removeprefix(tree)
    own = os.path.realpath(os.path.dirname(there) if full != tree else there)
    return there if f"{own}{os.sep}".startswith(f"{copy}{os.sep}") else path


def import_from(tree: str, copy: str) -> None:
    """From now on imports of this process find what is in the copy; once is enough."""
    if any(isinstance(each, _FromCopy) for each in sys.meta_path):
        return
    sys.path[:] = [led(each, tree, copy) for each in sys.path]
    sys.meta_path.insert(0, _FromCopy(tree, copy))


class _FromCopy:
    """Asks the finders behind it, and leads what they find in the tree to the copy."""

    def __init__(self, tree: str, copy: str) -> None:
        self._tree, self._copy = tree, copy

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What another finder finds; null for what the copy does not have."""
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            search = getattr(finder, "find_spec", None)
            if search and (found := search(name, path, target)):
                return self._led(name, found)
        return None

    def _led(self, name: str, found: ModuleSpec) -> ModuleSpec | None:
        folders = found.submodule_search_locations
        inside = None if folders is None else [self._there(each) for each in folders]
        if not found.origin or not found.has_location:  # built in, or a folder without a file
            found.submodule_search_locations = folders if inside is None else inside
            return found
        origin = self._there(found.origin)
        if origin == found.origin:
            return found
        if not os.path.lexists(origin):
            raise ModuleNotFoundError(f"No module named {name!r} in this revision", name=name)
        return spec_from_file_location(name, origin, submodule_search_locations=inside)

    def _there(self, path: str) -> str:
        return led(path, self._tree, self._copy)
