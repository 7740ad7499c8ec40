"""Hooks: all that is put around torch while a script is recorded, and how it is undone.

torch's own extension points come first; a patch is used where there is none. A hook does nothing
while Dynamo traces, so compiled graphs are what they would have been. None is switched on after
the script has started, and none touches random numbers.
"""

from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.hooks.functions import functions
from pitstop.profile.hooks.loader import batches, epochs, loaders, workers
from pitstop.profile.hooks.modules import KNOWN_AFTER, KNOWN_BEFORE, OutermostCalls
from pitstop.profile.hooks.patch import Function, Undo, argument, patch, unseen, with_callbacks
from pitstop.profile.read.clock import SAVING
from pitstop.profile.record.recorder import Recorder
from pitstop.profile.start.options import UNKNOWN
from pitstop.profile.start.ranks import processes

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
    unseen(attempt)
    unseen(Recorder.listens)
    return _all([hook(recorder) for hook in HOOKS])


def optimizers(recorder: Recorder) -> Undo:
    """Patch of Optimizer.__init__: the line that built each optimizer."""

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda given: recorder.optimizer_built(given[0][0]),
            failed=recorder.fail,
        )

    return patch((Optimizer,), "__init__", build)


def optimizer_steps(recorder: Recorder) -> Undo:
    """torch.optim global step hooks: when an optimizer steps, and how long it takes."""
    notes = recorder.notes

    def before(optimizer: Optimizer, *_: Any) -> None:
        if not is_dynamo_compiling():
            try:
                notes.begin_step(optimizer)
            except Exception as error:  # noqa: BLE001 never in the user's way
                recorder.fail(error)

    def after(optimizer: Optimizer, *_: Any) -> None:
        if not is_dynamo_compiling():
            try:
                notes.end_step(optimizer)
            except Exception as error:  # noqa: BLE001 likewise
                recorder.fail(error)

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
        return with_callbacks(
            original,
            recorder.notes.begin_backward,
            recorder.notes.end_backward,
            recorder.notes.end_backward,
            recorder.fail,
        )

    return patch((torch.autograd,), "backward", build)


def clipping(recorder: Recorder) -> Undo:
    """Patch of clip_grad_norm_: the norm of the gradients, which it returns."""

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda _: recorder.hears(),
            lambda _, norm: recorder.notes.clipped(norm),
            failed=recorder.fail,
        )

    return patch((torch.nn.utils, torch.nn.utils.clip_grad), "clip_grad_norm_", build)


def scaler(recorder: Recorder) -> Undo:
    """Patches of GradScaler: the loss before it is scaled, steps that it skips, and the scale."""

    def scale(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda _: recorder.listens(),
            lambda given, result: recorder.scaled(argument(given, 1, "outputs"), result),
            failed=recorder.fail,
        )

    def _maybe_opt_step(original: Function) -> Function:  # `step` warns in its caller's name
        return with_callbacks(
            original,
            lambda _: recorder.begin_scaled_step(),
            lambda given, _: recorder.end_scaled_step(argument(given, 1, "optimizer")),
            failed=recorder.fail,
        )

    def update(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda _: recorder.listens(),
            lambda given, _: recorder.rescaled(getattr(given[0][0], "_scale", None)),
            failed=recorder.fail,
        )

    owner = torch.amp.grad_scaler.GradScaler
    return _all([patch((owner,), each.__name__, each) for each in (scale, _maybe_opt_step, update)])


def collectives(recorder: Recorder) -> Undo:
    """Patches of torch.distributed's collectives: how long the script waits for other ranks."""
    if not torch.distributed.is_available():
        return lambda: None

    def build(original: Function) -> Function:
        return with_callbacks(
            original,
            lambda _: recorder.begin_exchange(),
            lambda *_: recorder.end_exchange(),
            lambda _: recorder.end_exchange(),
            recorder.fail,
        )

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
        return with_callbacks(
            original,
            lambda _: recorder.enter(SAVING),
            lambda *_: recorder.leave(),
            lambda _: recorder.leave(),
            recorder.fail,
        )

    return patch((torch,), "save", build)


def models(recorder: Recorder) -> Undo:
    """torch.nn global forward pre-hook, until the outermost models are known: inference steps."""
    known_after = KNOWN_AFTER if recorder.options.step_ends == UNKNOWN else KNOWN_BEFORE
    calls = OutermostCalls(
        lambda module: attempt(recorder.called, module, failed=recorder.fail), known_after
    )
    recorder.on_other_steps = calls.stop
    return calls.remove


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
    functions,
    processes,
)


def _all(undos: list[Undo]) -> Undo:
    """Undo several hooks, the last one first."""

    def undo() -> None:
        for each in reversed(undos):
            each()

    return undo
