"""Compiled functions: calls of models, and steps of optimizers, that no hook of theirs sees.

Where a script compiles a function, the modules that it calls and the optimizer that it steps are
parts of a graph. So what ``torch.compile`` returns tells of its own calls, and that an optimizer
has stepped is known by its parameters: torch counts how often each was written to.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.profile.hooks.modules import calls_of_modules
from pitstop.profile.hooks.patch import Given, Undo, disguised, patch, with_callbacks
from pitstop.profile.record.recorder import Recorder

Function = Callable[..., Any]


def functions(recorder: Recorder) -> Undo:
    """Patch of torch.compile: calls of the functions that it returns, and steps within them."""
    stepped: set[int | None] = {None}  # numbers of optimizers: none, or of those that step within

    def build(original: Function) -> Function:
        def compile_(model: Any = None, *rest: Any, **options: Any) -> Any:
            made = original(model, *rest, **options)
            if model is None or made is model or not isinstance(made, FunctionType):
                return made
            owner = getattr(model, "__self__", None)  # as where a module compiles itself
            subject = owner if isinstance(owner, nn.Module) else model
            return disguised(made, _heard(made, subject, recorder, stepped))

        return compile_

    return patch((torch,), "compile", build)


def _heard(made: Function, subject: Any, recorder: Recorder, stepped: set[int | None]) -> Function:
    """The compiled function, which tells of those calls that the script makes itself."""
    before: dict[int, int] = {}  # by the id of an optimizer: writes to its parameters

    def begins(_: Given) -> bool:
        if not recorder.hears() or recorder.in_function or calls_of_modules(sys._getframe()):
            return False
        if not recorder.other_steps:
            recorder.called(subject)
        recorder.in_function = True
        before.clear()
        before.update((id(each), _writes(each)) for each in unseen())
        return True

    def ends(*_: Any) -> None:
        recorder.in_function = False
        for each in unseen():
            writes = _writes(each)
            if before.get(id(each), writes) != writes and recorder.listens():
                recorder.begin_step(id(each))
                recorder.end_step(each)
                stepped.add(recorder.numbers.of(each))

    def fails(_: Given) -> None:
        recorder.in_function = False

    def unseen() -> list[Any]:
        """The optimizers of which no step was seen elsewhere."""
        numbers = recorder.numbers
        return [each for each in recorder.optimizers.living() if numbers.of(each) in stepped]

    return with_callbacks(made, begins, ends, fails, recorder.fail)


def _writes(optimizer: Any) -> int:
    """How often its parameters were written to, all together."""
    with internals.without_function_modes():  # the script's modes must not see us
        return sum(
            internals.version(each) for group in optimizer.param_groups for each in group["params"]
        )
