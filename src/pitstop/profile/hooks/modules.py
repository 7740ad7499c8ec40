"""Outermost model calls: the steps of a script that has neither optimizer nor DataLoader.

A global hook would cost a microsecond on every module call of a whole run. It is needed only to
learn which modules the script itself calls; then the classes of those few are patched and the hook
goes. (A hook on a module itself would be saved, copied and scripted along with it.) It goes as well
as soon as an optimizer steps or a batch is fetched. Only when something has been compiled it stays:
Dynamo guards on hooks, and a change would make it compile again.
"""

import re
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.nn.modules.module import register_module_forward_pre_hook

from pitstop import internals
from pitstop.profile.hooks.patch import Given, Undo, patch, unseen, with_callbacks

KNOWN_AFTER = 64  # outermost calls after which no new module is looked for
KNOWN_BEFORE = 4  # likewise, where an earlier run has told what a step is: CUDA graphs shun hooks
GLOBAL_HOOKS = re.compile(r"_global_(forward|backward)_.*hooks")
CALL: CodeType = internals.call_of(torch.nn.Module).__code__


class OutermostCalls:
    """Tells of each call of a module that the script makes itself, not through another module."""

    def __init__(self, on_call: Callable[[Any], None], known_after: int = KNOWN_AFTER) -> None:
        self._on_call = on_call
        self._known_after = known_after
        self._calls = 0
        self._found: dict[int, weakref.ref[Any]] = {}  # by id: modules may not be hashable
        unseen(OutermostCalls._before_any)
        self._hook = register_module_forward_pre_hook(self._before_any)
        self._undos: list[Undo] = [self._hook.remove, *self._not_warned_of()]
        self.listening = True

    def stop(self) -> None:
        """The script has steps of another kind: listen no more."""
        self.listening = False
        if not compiled_anything():
            self.remove()

    def remove(self) -> None:
        """Take every hook away."""
        for undo in self._undos:
            undo()
        self._undos.clear()

    def _before_any(self, module: Any, _: Any) -> None:
        if torch.compiler.is_compiling() or not self.listening:
            return
        if calls_of_modules(sys._getframe(2)) > 1:  # one is its own
            return
        self._calls += 1
        self._found[id(module)] = weakref.ref(module)
        self._on_call(module)
        if self._calls >= self._known_after and not compiled_anything():
            self.remove()
            kinds = {
                type(each)
                for reference in self._found.values()
                if (each := reference()) is not None
            }
            self._undos = [patch((each,), "__call__", self._around) for each in kinds]

    def _not_warned_of(self) -> list[Undo]:
        """A compiled module warns of every global hook; of ours the script must not hear."""
        if not hasattr(modules, "_has_any_global_hook"):  # an older torch
            return []
        kinds = [value for name, value in vars(modules).items() if GLOBAL_HOOKS.fullmatch(name)]

        def build(original: Callable[..., Any]) -> Callable[..., Any]:
            def of_the_script() -> bool:
                if torch.compiler.is_compiling():
                    return bool(original())
                return any(key != self._hook.id for kind in kinds for key in kind)

            return of_the_script

        return [patch((modules,), "_has_any_global_hook", build)]

    def _knows(self, module: Any) -> bool:
        known = self._found.get(id(module))
        return known is not None and known() is module

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begins(given: Given) -> None:
            if self.listening and self._knows(given[0][0]):
                self._on_call(given[0][0])

        return with_callbacks(original, begins)


def compiled_anything() -> bool:
    """Whether the script has asked Dynamo to compile anything, if only in the future."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and any(each is not None for each in dynamo.cached_backends.values())


def calls_of_modules(frame: FrameType | None) -> int:
    """How many of them the stack holds."""
    found = 0
    while frame is not None:
        found += frame.f_code is CALL
        frame = frame.f_back
    return found
