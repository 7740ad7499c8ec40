"""Tree: all modules that live now, and the path of each below its outermost owner."""

import gc
import weakref
from typing import Any

import torch


class Tree:
    """The paths of modules. Keeps none of them alive."""

    def __init__(self) -> None:
        modules = living_modules()
        owned = {id(each) for module in modules for each in module._modules.values()}
        self._known: dict[int, tuple[weakref.ref[Any], str, weakref.ref[Any]]] = {}
        for module in modules:
            if id(module) not in owned:
                self.add(module)

    def add(self, top: torch.nn.Module) -> None:
        """Learn the paths of an outermost module and of all below it."""
        for path, module in top.named_modules():
            self._known.setdefault(id(module), (weakref.ref(module), path, weakref.ref(top)))

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
        return (self.knows(module) and self._known[id(module)][1]) or type(module).__name__

    def top(self, module: torch.nn.Module) -> torch.nn.Module:
        """The outermost module that owns this one, or the module itself."""
        found = self._known[id(module)][2]() if self.knows(module) else None
        return module if found is None else found


def living_modules() -> list[torch.nn.Module]:
    """Every finished module of the process; by type, for objects may pretend in ``__class__``."""
    found = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    return [each for each in found if "_modules" in each.__dict__]
