"""A step: what is done with model, batch and optimizer, twice, while it is watched.

The second step is the usual one, since an optimizer makes its state in the first. The peak is that
of both.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.core.errors import PitstopError
from pitstop.parts.memory.on_cuda import OnCuda, take_foreach
from pitstop.parts.memory.stand_ins import stand_in_for
from pitstop.parts.memory.trace import Trace
from pitstop.parts.memory.watch import Watch
from pitstop.parts.memory.workspace import bytes_inside

Optimizer = torch.optim.Optimizer
Loss = Callable[..., torch.Tensor]
STEPS = 2


@dataclass(slots=True)
class Task:
    """What is to be looked at; its tensors may be real, or stand-ins."""

    model: nn.Module
    batch: Any
    optimizer: Optimizer | None
    loss: Loss | None
    accumulate: int
    training: bool


@dataclass(frozen=True, slots=True)
class Way:
    """How it is looked at."""

    on: str  # "cuda" or "cpu": whose ways operations take
    device: str  # where fake tensors are
    autocast: torch.dtype | None
    real: bool = False  # with the tensors themselves


def trace_of(task: Task, way: Way) -> Trace:
    """Take two steps, and write down what they made."""
    parts = (task.model, task.batch, task.optimizer, task.loss)
    if way.real:
        model, batch, optimizer, loss = copy.deepcopy(parts)
        copied = Task(model, batch, optimizer, loss, task.accumulate, task.training)
        return _watched(copied, way, Watch(way.device))
    fake_mode = internals.FakeTensorMode(allow_non_fake_inputs=True)
    model, batch, optimizer, loss = stand_in_for(parts, fake_mode, way.device)
    copied = Task(model, batch, optimizer, loss, task.accumulate, task.training)
    with ExitStack() as stack:
        stack.enter_context(fake_mode)
        if way.on == "cuda":
            if way.device == "cpu":
                stack.enter_context(OnCuda())
            if optimizer is not None:
                take_foreach(optimizer)
            return _watched(copied, way, Watch(way.device, bytes_inside))
        return _watched(copied, way, Watch(way.device))


def _watched(task: Task, way: Way, watch: Watch) -> Trace:
    _hold(task, watch)
    undos = [watch.follow(task.model), *_name_gradients(task.model, watch)]
    try:
        with watch:
            for _ in range(STEPS if task.training else 1):
                if task.training:
                    _training_step(task, way, watch)
                else:
                    with _autocast(way), torch.no_grad():
                        _call(task)
    finally:
        for undo in undos:
            undo()
    return watch.trace


def _hold(task: Task, watch: Watch) -> None:
    """What is there before the step: weights first, as a script makes them first."""
    watch.hold_model(task.model)
    if task.optimizer is not None:
        _name_state(task, watch.hold)
    tensors = [x for x in internals.tree_leaves(task.batch) if isinstance(x, torch.Tensor)]
    watch.hold(tensors, "batch")
    if isinstance(task.loss, nn.Module):
        watch.hold_model(task.loss, "loss")


def _name_gradients(model: nn.Module, watch: Watch) -> list[Callable[[], None]]:
    def naming(module: str) -> Callable[[torch.Tensor], None]:
        def name(weight: torch.Tensor) -> None:
            if weight.grad is not None:
                watch.name(weight.grad, "gradients", module)

        return name

    return [
        weight.register_post_accumulate_grad_hook(naming(name.rpartition(".")[0])).remove
        for name, weight in model.named_parameters()
        if weight.requires_grad
    ]


def _name_state(task: Task, say: Callable[[Any, str, str], None]) -> None:
    assert task.optimizer is not None
    owners = {id(each): name for name, each in task.model.named_parameters()}
    for weight, state in task.optimizer.state.items():
        module = owners.get(id(weight), "").rpartition(".")[0]
        tensors = [x for x in internals.tree_leaves(state) if isinstance(x, torch.Tensor)]
        say(tensors, "optimizer state", module)


def _training_step(task: Task, way: Way, watch: Watch) -> None:
    if task.optimizer is not None:
        task.optimizer.zero_grad()
    else:
        task.model.zero_grad()
    for _ in range(task.accumulate):
        with _autocast(way):
            loss = _loss(task, _call(task))
        (loss / task.accumulate if task.accumulate > 1 else loss).backward()
        del loss
    if task.optimizer is None:
        return
    with watch.optimizing():
        task.optimizer.step()

    def name(tensors: list[torch.Tensor], kind: str, module: str) -> None:
        for each in tensors:
            watch.name(each, kind, module)

    _name_state(task, name)


def _call(task: Task) -> Any:
    batch = task.batch
    if isinstance(batch, Mapping):
        return task.model(**batch)
    if isinstance(batch, tuple | list):
        return task.model(*batch)
    return task.model(batch)


class _Autocast:
    """As ``torch.autocast("cuda", dtype)``, which refuses where torch has no CUDA."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._wanted = True, dtype
        self._before = False, dtype

    def _set(self, state: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled("cuda", state[0])
        torch.set_autocast_dtype("cuda", state[1])

    def __enter__(self) -> None:
        self._before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        torch.autocast_increment_nesting()
        self._set(self._wanted)

    def __exit__(self, *_: object) -> None:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        self._set(self._before)


def _autocast(way: Way) -> Any:
    if way.autocast is None:
        return nullcontext()
    return _Autocast(way.autocast) if way.on == "cuda" else torch.autocast("cpu", way.autocast)


def _loss(task: Task, output: Any) -> torch.Tensor:
    if task.loss is not None:
        return task.loss(output)
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    floats = [
        each
        for each in internals.tree_leaves(output)
        if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    if not floats:
        raise PitstopError("nothing that the model returns can be trained: give loss=")
    total = floats[0].sum()
    for each in floats[1:]:
        total = total + each.sum()
    return total
