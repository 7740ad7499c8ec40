"""Executed: act on a module once its code has run, whoever asked for it before.

Libraries look whether torch is installed long before they import it (``importlib.util.find_spec``),
some load it lazily, and an import may fail and be tried again. Only its execution tells.
"""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pitstop.profile.hooks.attempt import attempt


def when_executed(name: str, action: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Act on a module, now or as soon as it is there; return how to give up waiting."""
    if (module := sys.modules.get(name)) is not None:
        action(module)
        return lambda: None
    waiting = _Waiting(name, action)
    sys.meta_path.insert(0, waiting)
    return waiting.stop


class _Waiting(MetaPathFinder):
    """Finds what the finders behind it find, and lets every loader of the module tell us."""

    def __init__(self, name: str, action: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._action = action
        self._waits = True

    def stop(self) -> None:
        """Wait no more."""
        self._waits = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The usual spec, whose loader calls us once the module is complete."""
        if name != self._name or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            if find and (spec := find(name, path, target)) is not None:
                attempt(self._follow, spec.loader)
                return spec  # type: ignore[no-any-return]
        return None

    def _follow(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # others may wait for the same module
            execute(module)
            if self._waits:
                self.stop()
                self._action(module)

        loader.exec_module = execute_then_act
