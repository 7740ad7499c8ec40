"""Begin: let the script go on with stand-ins from the first call of its model on, and watch it."""

import atexit
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pitstop import internals
from pitstop.memory.plan import MemoryPlan, Seen, read_plan, write_seen
from pitstop.memory.script_watch import ScriptWatch
from pitstop.parts.memory.on_cuda import OnCuda, take_foreach
from pitstop.parts.memory.watch import joined
from pitstop.parts.memory.workspace import bytes_inside
from pitstop.profile.hooks.patch import Function, patch

STEPS = 2  # of every optimizer that steps: the first one makes its state


def begin(argument: str) -> None:
    """Wait for the model's first call; torch is there, the script's own lines are not yet."""
    Begun(read_plan(argument))


class Begun:
    """The one watch of this process."""

    def __init__(self, plan: MemoryPlan) -> None:
        self._plan = plan
        self._process = os.getpid()
        self._watch: ScriptWatch | None = None
        self._modes: list[Any] = []
        self._training = False
        self._batch = 0
        self._device = ""
        self._owners: dict[int, str] = {}  # the module of each parameter
        self._steps: dict[int, int] = {}  # of each optimizer
        self._named: set[int] = set()
        self._optimizing: list[Any] = []
        self._began_s = 0.0
        self._hooks = [
            register_module_forward_pre_hook(self._called),
            register_optimizer_step_pre_hook(self._stepping),
            register_optimizer_step_post_hook(self._stepped),
        ]
        self._excepthook = sys.excepthook
        sys.excepthook = self._failed
        patch((internals.LoaderIterator,), "__next__", _in_earnest)
        patch((torch.amp.grad_scaler.GradScaler,), "_maybe_opt_step", self._unscaled)
        atexit.register(self._at_exit)

    # What happens

    def _called(self, module: nn.Module, given: Any) -> None:
        if os.getpid() != self._process or internals.backward_pass() != -1:
            return
        if self._watch is not None:
            if not self._training and time.monotonic() - self._began_s > self._plan.seconds:
                self._end(f"ended after {self._plan.seconds:.0f} s")
            return
        optimizers = [each for each in _living() if isinstance(each, torch.optim.Optimizer)]
        learns = torch.is_grad_enabled() and any(x.requires_grad for x in module.parameters())
        if not optimizers or learns:
            self._training = bool(optimizers)
            first = next((x for x in given if isinstance(x, torch.Tensor) and x.dim()), None)
            self._batch = 0 if first is None else len(first)
            self._start(module, optimizers)

    def _stepping(self, optimizer: Any, *_: Any) -> None:
        if self._watch is None:
            return
        if id(optimizer) not in self._steps:
            self._steps[id(optimizer)] = 0
            if not self._plan.real and not self._on_gpu():
                take_foreach(optimizer)
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._watch.name(weight.grad, "gradients", self._owner_of(weight))
        self._optimizing.append(self._watch.optimizing())
        self._optimizing[-1].__enter__()

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._watch is None or not self._optimizing:
            return
        self._optimizing.pop().__exit__(None, None, None)
        for weight, state in optimizer.state.items():
            for each in internals.tree_leaves(state):
                if isinstance(each, torch.Tensor):
                    self._watch.name(each, "optimizer state", self._owner_of(weight))
        self._steps[id(optimizer)] += 1
        if min(self._steps.values()) >= STEPS:
            self._end("")

    def _failed(self, kind: Any, error: BaseException, trace: Any) -> None:
        if self._watch is None or issubclass(kind, SystemExit | KeyboardInterrupt):
            self._excepthook(kind, error, trace)
            return
        said = (str(error).strip().splitlines() or [""])[0]
        self._end(f"{kind.__name__}: {said}")

    def _at_exit(self) -> None:
        if os.getpid() == self._process:
            self._end("")

    def _unscaled(self, original: Function) -> Function:
        """A GradScaler asks whether numbers are finite; stand-ins have none."""

        def step(scaler: Any, optimizer: Any, state: Any, *given: Any, **named: Any) -> Any:
            if self._watch is None or self._plan.real:
                return original(scaler, optimizer, state, *given, **named)
            return optimizer.step(*given, **named)

        return step

    # From real tensors to stand-ins

    def _start(self, module: nn.Module, optimizers: list[Any]) -> None:
        self._began_s = time.monotonic()
        self._device = _device_of(module)
        fake_mode = None
        if not self._plan.real:
            if hasattr(torch.compiler, "set_stance"):
                torch.compiler.set_stance("force_eager")
            fake_mode = internals.FakeTensorMode(allow_non_fake_inputs=True)
        inside = (lambda *_: 0) if self._plan.real else bytes_inside
        self._watch = watch = ScriptWatch(self._device, fake_mode, inside)
        if fake_mode is not None:
            self._modes = [fake_mode, *([] if self._on_gpu() else [OnCuda()])]
        self._know(module, optimizers)
        for each in (*self._modes, watch):
            each.__enter__()

    def _know(self, called: nn.Module, optimizers: list[Any]) -> None:
        assert self._watch is not None
        for name, model in _models():
            self._watch.follow(model, name)
            self._watch.hold_model(model, name)
            for below, module in model.named_modules():
                where = joined(name, below)
                if module is called:
                    self._watch.enter(where)
                self._owners.update(
                    (id(x), where) for x in internals.own_parameters(module).values()
                )
        for optimizer in optimizers:
            for weight, state in optimizer.state.items():
                tensors = internals.tree_leaves(state)
                self._watch.hold(tensors, "optimizer state", self._owner_of(weight))
        if self._on_gpu():
            others = [each for each in _living() if isinstance(each, torch.Tensor)]
            self._watch.hold(others, "batch")

    def _owner_of(self, weight: Any) -> str:
        return self._owners.get(id(weight), "")

    def _on_gpu(self) -> bool:
        return self._device == "cuda"

    def _end(self, trouble: str) -> None:
        """Write down what was seen, and end the process: what follows would be made of nothing."""
        watch, self._watch = self._watch, None
        if watch is None:
            return
        with internals.without_modes():
            seen = Seen(watch.trace, self._training, self._device, self._plan.real, trouble=trouble)
            seen.batch = self._batch
            seen.steps = min(self._steps.values(), default=0)
            if torch.cuda.is_available():
                _tell_of_gpu(seen)
            write_seen(Path(self._plan.folder), seen)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _in_earnest(original: Function) -> Function:
    """Loaders read real files, and their samples are real tensors."""

    def fetch(iterator: Any) -> Any:
        with internals.without_modes():
            return original(iterator)

    return fetch


def _tell_of_gpu(seen: Seen) -> None:
    seen.gpu = torch.cuda.get_device_name()
    free, seen.gpu_bytes = torch.cuda.mem_get_info()
    seen.free_bytes = free + torch.cuda.memory_reserved()
    if seen.real:
        seen.measured_bytes = torch.cuda.max_memory_allocated()


def _device_of(module: nn.Module) -> str:
    return next((each.device.type for each in module.parameters()), "cpu")


def _living() -> Iterator[Any]:
    kinds = (torch.Tensor, nn.Module, torch.optim.Optimizer)
    return (each for each in gc.get_objects() if issubclass(type(each), kinds))


def _models() -> list[tuple[str, nn.Module]]:
    """The outermost modules that are alive, by their classes."""
    modules = [
        each for each in _living() if isinstance(each, nn.Module) and "_modules" in vars(each)
    ]
    inner = {id(child) for each in modules for child in internals.own_modules(each).values()}
    outer = [each for each in modules if id(each) not in inner]
    return [(type(each).__name__, each) for each in outer]
