"""Tree: all modules that live now, each with a path that no other has.

A path begins below the outermost module, which is called by its class: ``Net``, and ``Net#2`` for
the second one that is asked for. Where two outermost modules have a part of the same path, the
later one's begins with its own name.
"""

import gc
import weakref
from itertools import chain, count
from typing import Any

import torch

from pitstop import internals


class Tree:
    """The paths of modules. Keeps none of them alive."""

    def __init__(self) -> None:
        modules = living_modules()
        owned = {id(each) for module in modules for each in internals.own_modules(module).values()}
        self._known: dict[int, tuple[weakref.ref[Any], str, weakref.ref[Any]]] = {}
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        for module in modules:
            if id(module) not in owned:
                self.add(module)

    def add(self, top: torch.nn.Module) -> None:
        """Learn the places of an outermost module and of all below it."""
        for path, module in top.named_modules():
            if not self.knows(module):
                self._known[id(module)] = weakref.ref(module), path, weakref.ref(top)
                self._names.pop(id(module), None)

    def tops(self) -> list[torch.nn.Module]:
        """The outermost modules that still exist."""
        found = {id(top()): top() for _, _, top in self._known.values()}
        return [each for each in found.values() if each is not None]

    def knows(self, module: torch.nn.Module) -> bool:
        """Whether the module was there when the tree was made."""
        known = self._known.get(id(module))
        return known is not None and known[0]() is module

    def path(self, module: torch.nn.Module) -> str:
        """``decoder.blocks.3``; the class of an outermost module."""
        if not self.knows(module):
            return type(module).__name__
        if id(module) not in self._names:
            self._names[id(module)] = self._free(module, self._known[id(module)][1])
            self._taken.add(self._names[id(module)])
        return self._names[id(module)]

    def _free(self, module: torch.nn.Module, path: str) -> str:
        """A name that no other module has."""
        if path and path not in self._taken:
            return path
        if path:
            return f"{self.path(self.top(module))}.{path}"
        kind = type(module).__name__
        names = chain([kind], (f"{kind}#{number}" for number in count(2)))
        return next(each for each in names if each not in self._taken)

    def top(self, module: torch.nn.Module) -> torch.nn.Module:
        """The outermost module that owns this one, or the module itself."""
        found = self._known[id(module)][2]() if self.knows(module) else None
        return module if found is None else found


def living_modules() -> list[torch.nn.Module]:
    """Every finished module of the process; by type, for objects may pretend in ``__class__``."""
    found = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    return [each for each in found if "_modules" in each.__dict__]
