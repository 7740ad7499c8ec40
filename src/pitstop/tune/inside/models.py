"""Models: the modules that the script calls itself, found as they are first called.

``nn.Module.__call__`` is replaced only while no module runs: the first thing a call does is to put
it back. So inner modules cost nothing, and Dynamo, which knows that function by identity, never
sees ours. After some calls without a new module the search ends. A module that was found keeps a
function in the slot that ``Module.compile`` uses, and so calls of others stay as they were.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from types import FunctionType
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.compiler import is_dynamo_compiling

from pitstop.parts.blocks import wrap
from pitstop.profile.hooks.patch import Undo, disguised, patch
from pitstop.profile.inspect.origins import in_backward

CALLS = ("forward", "_call_impl", "_wrapped_call_impl")
KNOWN_AFTER = 64  # calls without a new module; the search costs some microseconds a call

Call = Callable[..., Any]
Around = Callable[..., Any]  # around(call, module, *arguments, **options) -> what call returns


class Models:
    """Tells of each outermost module before its first call, and puts functions around its calls."""

    def __init__(self, undos: list[Undo], known_after: int = KNOWN_AFTER) -> None:
        self.changes: list[Any] = []  # all that are put on them
        self._undos = undos
        self._known_after = known_after
        self._on_model: list[Callable[[nn.Module], None]] = []
        self._arounds: list[Around] = []
        self._around_functions: list[Around] = []
        self._inside = False
        self._thread = get_ident()
        self._found: dict[int, ref[nn.Module]] = {}  # by id: modules may not be hashable
        self._calls_since = 0
        self._original = nn.Module.__call__
        self._searching = False

    def on_model(self, callback: Callable[[nn.Module], None]) -> None:
        """Call back once for each outermost module, before its first call."""
        self._search()
        self._on_model.append(callback)

    def around(self, around: Around, functions: bool = False) -> None:
        """Put a function around each outermost call; or of compiled functions, too.

        The models that those call cannot be met.
        """
        self._search()
        self._arounds.append(around)
        self._around_functions += [around] if functions else []

    def _search(self) -> None:
        if self._searching:
            return
        self._searching = True
        self._put_in_place()
        self._undos.append(self._stop)

        def build(original: Call) -> Call:
            def compile_(model: Any = None, *rest: Any, **options: Any) -> Any:
                with self._lifted():  # a compiled module keeps the function that it finds here
                    made = original(model, *rest, **options)
                if isinstance(model, nn.Module | None) or _is_call(model):
                    return made
                if not isinstance(made, FunctionType):
                    self._stop()  # the modules it calls would be traced with ours around them
                    return made
                return disguised(made, self._around_function(made, model))

            return compile_

        self._undos.append(patch((torch,), "compile", build))

    def _around_function(self, made: Call, function: Any) -> Call:
        """The same compiled function, with what is put around such functions.

        The modules that it calls must not be traced with ours around them.
        """

        def call(*arguments: Any, **options: Any) -> Any:
            if self._inside or is_dynamo_compiling():
                return made(*arguments, **options)
            if self._elsewhere():
                self._stop()
                return made(*arguments, **options)
            with self._lifted():
                arounds = self._around_functions
                return self._surrounded(arounds, made, function, *arguments, **options)

        return call

    def _stop(self) -> None:
        self._searching = False
        nn.Module.__call__ = self._original  # type: ignore[method-assign]

    def _put_in_place(self) -> None:
        def call(module: nn.Module, *arguments: Any, **options: Any) -> Any:
            return self._called(module, *arguments, **options)

        nn.Module.__call__ = call  # type: ignore[method-assign]

    def _called(self, module: nn.Module, *arguments: Any, **options: Any) -> Any:
        if self._elsewhere():
            return self._original(module, *arguments, **options)
        with self._lifted():
            self._meet(module)
            return module(*arguments, **options)

    def _elsewhere(self) -> bool:
        """Whether another thread calls, or a backward pass that computes something again."""
        return get_ident() != self._thread or in_backward()

    @contextmanager
    def _lifted(self) -> Iterator[None]:
        if not self._searching:
            yield
            return
        nn.Module.__call__ = self._original  # type: ignore[method-assign]
        try:
            yield
        finally:
            if self._searching and self._calls_since < self._known_after:
                self._put_in_place()
            else:
                self._stop()

    def _meet(self, module: nn.Module) -> None:
        self._calls_since += 1
        known = self._found.get(id(module), lambda: None)() is module
        if known or not device_of(module):  # a loss without weights is no model
            return
        self._calls_since = 0
        self._found[id(module)] = ref(module)
        for callback in self._on_model:
            callback(module)
        self._undos.append(wrap(module, self._outermost))

    def _outermost(self, call: Call, module: nn.Module, *arguments: Any, **options: Any) -> Any:
        if self._inside or self._elsewhere():
            return call(*arguments, **options)
        with self._lifted():  # whoever patches its class calls it without asking ``nn.Module``
            return self._surrounded(self._arounds, call, module, *arguments, **options)

    def _surrounded(
        self, arounds: list[Around], call: Call, subject: Any, *arguments: Any, **options: Any
    ) -> Any:
        for around in reversed(arounds):
            call = partial(around, call, subject)
        self._inside = True
        try:
            return call(*arguments, **options)
        finally:
            self._inside = False


def _is_call(method: Any) -> bool:
    """Whether a method of a module is what a call of it runs, and is met by that."""
    owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    return isinstance(owner, nn.Module) and name in CALLS


def device_of(module: nn.Module) -> str:
    """The kind of device that a module's weights are on; empty where it has none."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device.type
    return ""
