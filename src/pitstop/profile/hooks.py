"""Hooks: all that is put around torch while a script is recorded, and how it is undone.

torch's own extension points come first; a patch is used where there is none. A hook does nothing
while Dynamo traces, so compiled graphs are what they would have been. None is switched on after
the script has started, and none touches random numbers.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pitstop.profile.modules import OutermostCalls
from pitstop.profile.recorder import Recorder

Undo = Callable[[], None]
Result = TypeVar("Result")


def install(recorder: Recorder) -> Undo:
    """Put every hook in place; return what takes them all away again."""
    undos = [hook(recorder) for hook in HOOKS]

    def undo_all() -> None:
        for undo in reversed(undos):
            undo()

    return undo_all


def optimizer_steps(recorder: Recorder) -> Undo:
    """torch.optim global step hooks: when an optimizer steps, and how long it takes."""
    counted: list[bool] = []

    def before(*_: Any) -> None:
        if not torch.compiler.is_compiling():
            counted.append(guarded(recorder, recorder.enter, "optimizer") or False)

    def after(optimizer: Optimizer, *_: Any) -> None:
        if not torch.compiler.is_compiling() and counted and counted.pop():
            guarded(recorder, recorder.leave, "optimizer")
            guarded(recorder, recorder.stepped, optimizer)

    first = register_optimizer_step_pre_hook(before)
    second = register_optimizer_step_post_hook(after)

    def undo() -> None:
        first.remove()
        second.remove()

    return undo


def batches(recorder: Recorder) -> Undo:
    """Patch of the DataLoader iterator's __next__: how long the script waits for each batch."""

    def around(original: Callable[[Any], Any], iterator: Any) -> Any:
        ours = iterator._dataset, lambda: _settings(iterator)  # the dataset outlives the epoch
        if not guarded(recorder, recorder.begin_wait, *ours):
            return original(iterator)
        try:
            batch = original(iterator)
        finally:
            guarded(recorder, recorder.leave, "wait")
        guarded(recorder, recorder.fetched)
        return batch

    return patch(_BaseDataLoaderIter, "__next__", around)


def backward(recorder: Recorder) -> Undo:
    """Patch of torch.autograd.backward: the loss, and how long the backward pass takes."""

    def around(original: Callable[..., Any], tensors: Any, *rest: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling() or not guarded(recorder, recorder.enter, "backward"):
            return original(tensors, *rest, **options)
        first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
        guarded(recorder, recorder.differentiated, first)
        try:
            return original(tensors, *rest, **options)
        finally:
            guarded(recorder, recorder.leave, "backward")

    return patch(torch.autograd, "backward", around)


def scaler(recorder: Recorder) -> Undo:
    """Patch of GradScaler.scale: what the loss was before it was scaled."""

    def around(original: Callable[..., Any], self: Any, outputs: Any) -> Any:
        result = original(self, outputs)
        if isinstance(outputs, torch.Tensor):
            guarded(recorder, recorder.scaled, outputs, result)
        return result

    return patch(torch.amp.grad_scaler.GradScaler, "scale", around)


def saving(recorder: Recorder) -> Undo:
    """Patch of torch.save: checkpoints are accounted beside the step."""

    def around(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if not guarded(recorder, recorder.enter, "saving"):
            return original(*arguments, **options)
        try:
            return original(*arguments, **options)
        finally:
            guarded(recorder, recorder.leave, "saving")

    return patch(torch, "save", around)


def models(recorder: Recorder) -> Undo:
    """torch.nn global forward pre-hook, until the outermost models are known: inference steps."""
    calls = OutermostCalls(lambda module: guarded(recorder, recorder.called, module))
    recorder.on_other_steps = calls.stop
    return calls.remove


def tracebacks(recorder: Recorder) -> Undo:  # noqa: ARG001 the shape of every hook
    """Patch of sys.excepthook: an uncaught exception is shown without the frames of the patches."""
    original = sys.excepthook

    def without_us(kind: Any, error: BaseException, trace: TracebackType | None) -> None:
        original(kind, error.with_traceback(_stripped(trace)), _stripped(trace))

    def undo() -> None:
        if sys.excepthook is without_us:
            sys.excepthook = original

    sys.excepthook = without_us
    return undo


HOOKS = (optimizer_steps, batches, backward, scaler, saving, models, tracebacks)


def patch(owner: Any, name: str, around: Callable[..., Any]) -> Undo:
    """Replace a function by ``around(original, ...)``; the undoing leaves no trace."""
    original = getattr(owner, name)
    inherited = name not in vars(owner)

    @wraps(original)
    def patched(*arguments: Any, **options: Any) -> Any:
        return around(original, *arguments, **options)

    setattr(owner, name, patched)
    return lambda: delattr(owner, name) if inherited else setattr(owner, name, original)


def guarded(recorder: Recorder, action: Callable[..., Result], *arguments: Any) -> Result | None:
    """Call into the recorder; a failure of ours ends the recording, never the script."""
    try:
        return action(*arguments)
    except Exception as error:  # noqa: BLE001 never in the user's way
        recorder.fail(error)
        return None


def _stripped(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the entries of this file."""
    if trace is None:
        return None
    rest = _stripped(trace.tb_next)
    if trace.tb_frame.f_code.co_filename == __file__:
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def _settings(iterator: Any) -> dict[str, Any]:
    """The settings of a loader that matter to its speed."""
    return {
        "dataset": type(iterator._dataset).__name__,
        "workers": iterator._num_workers,
        "pinned": bool(iterator._pin_memory),
        "persistent": bool(getattr(iterator, "_persistent_workers", False)),
        "prefetch": getattr(iterator, "_prefetch_factor", None),
    }
