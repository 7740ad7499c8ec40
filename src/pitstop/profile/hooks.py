"""Hooks: all that is put around torch while a script is recorded, and how it is undone.

torch's own extension points come first; a patch is used where there is none. A hook does nothing
while Dynamo traces, so compiled graphs are what they would have been. None is switched on after
the script has started, and none touches random numbers.
"""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pitstop.profile.loader_hooks import batches, epochs, loaders, workers
from pitstop.profile.modules import OutermostCalls
from pitstop.profile.patch import Undo, guarded, patch, unseen, without_us
from pitstop.profile.recorder import Recorder, now_us

Function = Callable[..., Any]

COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "_broadcast_coalesced",  # how DistributedDataParallel shares buffers before each forward pass
)


def install(recorder: Recorder) -> Undo:
    """Put every hook in place; return what takes them all away again."""
    unseen(guarded)
    unseen(Recorder.listens)
    return _all([hook(recorder) for hook in HOOKS])


def optimizers(recorder: Recorder) -> Undo:
    """Patch of Optimizer.__init__: the line that built each optimizer."""

    def build(original: Function) -> Function:
        def __init__(optimizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            guarded(recorder, recorder.optimizer_built, optimizer)
            original(optimizer, *arguments, **options)

        return __init__

    return patch((Optimizer,), "__init__", build)


def optimizer_steps(recorder: Recorder) -> Undo:
    """torch.optim global step hooks: when an optimizer steps, and how long it takes."""
    counted: dict[int, bool | None] = {}  # those that step now, by their ids

    def before(optimizer: Optimizer, *_: Any) -> None:
        if is_compiling() or not recorder.listens():
            return
        if id(optimizer) in counted:  # its last step has raised
            counted.clear()
            guarded(recorder, recorder.died)
        counted[id(optimizer)] = guarded(recorder, recorder.enter, "optimizer")

    def after(optimizer: Optimizer, *_: Any) -> None:
        if not is_compiling() and recorder.listens() and counted.pop(id(optimizer), False):
            guarded(recorder, recorder.stepped, optimizer)

    unseen(before)
    unseen(after)
    return _all(
        [
            register_optimizer_step_pre_hook(before).remove,
            register_optimizer_step_post_hook(after).remove,
        ]
    )


def backward(recorder: Recorder) -> Undo:
    """Patch of torch.autograd.backward: the loss, and how long the backward pass takes."""

    def build(original: Function) -> Function:
        def differentiate(tensors: Any, *rest: Any, **options: Any) -> Any:
            if is_compiling() or not guarded(recorder, recorder.begin_backward, _root(tensors)):
                return original(tensors, *rest, **options)
            try:
                return original(tensors, *rest, **options)
            finally:
                guarded(recorder, recorder.end_backward)

        return differentiate

    return patch((torch.autograd,), "backward", build)


def clipping(recorder: Recorder) -> Undo:
    """Patch of clip_grad_norm_: the norm of the gradients, which it returns."""

    def build(original: Function) -> Function:
        def clip(*arguments: Any, **options: Any) -> Any:
            norm = original(*arguments, **options)
            if not is_compiling():
                guarded(recorder, recorder.clipped, norm)
            return norm

        return clip

    return patch((torch.nn.utils, torch.nn.utils.clip_grad), "clip_grad_norm_", build)


def scaler(recorder: Recorder) -> Undo:
    """Patches of GradScaler.scale and update: the loss before it is scaled, and the scale."""

    def build_scale(original: Function) -> Function:
        def scale(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
            if isinstance(outputs, torch.Tensor) and not is_compiling():
                guarded(recorder, recorder.scaled, outputs, result)
            return result

        return scale

    def build_update(original: Function) -> Function:
        def update(self: Any, *arguments: Any, **options: Any) -> None:
            original(self, *arguments, **options)
            if not is_compiling():
                guarded(recorder, recorder.rescaled, getattr(self, "_scale", None))

        return update

    owner = torch.amp.grad_scaler.GradScaler
    return _all([patch((owner,), "scale", build_scale), patch((owner,), "update", build_update)])


def collectives(recorder: Recorder) -> Undo:
    """Patches of torch.distributed's collectives: how long the script waits for other ranks."""
    if not torch.distributed.is_available():
        return lambda: None
    within: list[None] = []  # one collective may call another

    def build(original: Function) -> Function:
        def exchange(*arguments: Any, **options: Any) -> Any:
            if is_compiling() or within or not recorder.listens():
                return original(*arguments, **options)
            within.append(None)
            begun_us = now_us()
            try:
                return original(*arguments, **options)
            finally:
                within.clear()
                guarded(recorder, recorder.exchanged, begun_us)

        return exchange

    owners = (torch.distributed, torch.distributed.distributed_c10d)
    return _all(
        [
            patch(tuple(each for each in owners if hasattr(each, name)), name, build)
            for name in COLLECTIVES
            if hasattr(torch.distributed, name)
        ]
    )


def saving(recorder: Recorder) -> Undo:
    """Patch of torch.save: checkpoints are accounted beside the step."""

    def build(original: Function) -> Function:
        def save(*arguments: Any, **options: Any) -> Any:
            if is_compiling() or not guarded(recorder, recorder.enter, "saving"):
                return original(*arguments, **options)
            try:
                return original(*arguments, **options)
            finally:
                guarded(recorder, recorder.leave, "saving")

        return save

    return patch((torch,), "save", build)


def models(recorder: Recorder) -> Undo:
    """torch.nn global forward pre-hook, until the outermost models are known: inference steps."""
    calls = OutermostCalls(lambda module: guarded(recorder, recorder.called, module))
    recorder.on_other_steps = calls.stop
    return calls.remove


def tracebacks(recorder: Recorder) -> Undo:  # noqa: ARG001 the shape of every hook
    """Patch of sys.excepthook: an uncaught exception is shown without the frames of the patches."""
    original = sys.excepthook

    def show(kind: Any, error: BaseException, trace: TracebackType | None) -> None:
        original(kind, error.with_traceback(without_us(trace)), without_us(trace))

    def undo() -> None:
        if sys.excepthook is show:
            sys.excepthook = original

    sys.excepthook = show
    return undo


HOOKS = (
    loaders,
    epochs,
    workers,
    batches,
    optimizers,
    optimizer_steps,
    backward,
    clipping,
    scaler,
    collectives,
    saving,
    models,
    tracebacks,
)


def _root(tensors: Any) -> torch.Tensor | None:
    """The first tensor that a backward pass starts from."""
    first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
    return first if isinstance(first, torch.Tensor) else None


def _all(undos: list[Undo]) -> Undo:
    """Undo several hooks, the last one first."""

    def undo() -> None:
        for each in reversed(undos):
            each()

    return undo
