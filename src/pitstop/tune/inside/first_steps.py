"""First steps: samples of each gradient and of what each module returns, for whoever compares runs.

Two runs with one seed begin with the same weights and the same batch. Until training amplifies
rounding, a difference between them has a place: the first module that returns something else.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm
from torch.optim import Optimizer

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.inspect.origins import in_backward
from pitstop.tune.inside.made import Made
from pitstop.tune.inside.models import Models
from pitstop.tune.inside.numbers import tensors_in
from pitstop.tune.plan import FIRST_STEPS, LEARNING_STEPS

SAMPLED = 256  # numbers of each tensor, evenly spread: enough to tell how far two are apart
MOST_CALLS = 4096  # of modules in a step: what comes later is a matter of those before


def record(made: Made, models: Models, folder: Path, step: Callable[[], int]) -> None:
    """Write a line for each gradient and each call of a module in the first steps."""
    if os.environ.get("RANK", "0") != "0":
        return  # one rank tells for all
    recorder = _Recorder(folder / FIRST_STEPS, step)
    models.on_model(recorder.watch_model)
    made.on_built(recorder.watch_optimizer)


class _Recorder:
    """What is known of the names of modules and parameters, and how often each was called."""

    def __init__(self, path: Path, step: Callable[[], int]) -> None:
        self._path = path
        self._step = step
        self._kinds: Counter[str] = Counter()
        self._names: dict[int, str] = {}  # of parameters
        self._calls: Counter[tuple[int, str]] = Counter()

    def watch_model(self, model: nn.Module) -> None:
        """Before its first call."""
        kind = type(model).__name__
        self._kinds[kind] += 1
        top = kind if self._kinds[kind] == 1 else f"{kind}#{self._kinds[kind]}"
        for name, parameter in model.named_parameters():
            self._names.setdefault(id(parameter), f"{top}.{name}")
        for name, module in model.named_modules():
            full = f"{top}.{name}" if name else top
            attempt(partial(module.register_forward_hook, partial(self._called, full)))

    def watch_optimizer(self, optimizer: Optimizer) -> None:
        """Once it knows its parameters."""
        optimizer.register_step_pre_hook(lambda *_: attempt(partial(self._stepping, optimizer)))

    def _called(self, name: str, _: nn.Module, __: Any, returned: Any) -> None:
        if not torch.compiler.is_compiling() and not in_backward():
            attempt(partial(self._write_returned, name, returned))

    def _write_returned(self, name: str, returned: Any) -> None:
        step = self._step()
        if self._calls.total() >= MOST_CALLS or not _counts(step):
            return
        self._calls[step, name] += 1
        call = self._calls[step, name]
        for place, tensor in enumerate(tensors_in(returned)):
            self._write(step, "module", f"{name} {call} {place}", tensor)

    def _stepping(self, optimizer: Optimizer) -> None:
        step = self._step()
        if torch.compiler.is_compiling() or not _counts(step):
            return
        for group in optimizer.param_groups:
            for place, parameter in enumerate(group["params"]):
                if parameter.grad is not None:
                    name = self._names.get(id(parameter), f"parameter {place}")
                    self._write(step, "gradient", name, parameter.grad)

    def _write(self, step: int, kind: str, name: str, tensor: Tensor) -> None:
        if not tensor.is_floating_point() or not tensor.numel() or tensor.is_sparse:
            return
        flat = tensor.detach().reshape(-1)
        few = flat[:: -(-flat.numel() // SAMPLED)].double().tolist()
        line = [step, kind, name, float(vector_norm(flat.float())), few]
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _counts(step: int) -> bool:
    captures = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    return step < LEARNING_STEPS and not captures
