"""Learning: what the optimizers do in the first steps.

Losses of a few steps may hardly tell a model that learns from one that does not, or of which a part
has lost its gradients. The length of each optimizer's gradients, that of the way which its weights
are moved, and which of them are not, tell at once.
"""

import json
import math
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.optim import Optimizer

from pitstop.profile.hooks.attempt import attempt
from pitstop.tune.inside.made import Made
from pitstop.tune.plan import LEARNING, LEARNING_STEPS

SAMPLED = 4096  # values of each parameter, evenly spread, whose way is measured
MATERIAL = 1e-3  # of all that an optimizer does: less may be nothing but rounding
EXACT = {torch.float32, torch.float64}
Step = Callable[[], int | None]  # steps done before this one, where its numbers count


def record(made: Made, folder: Path, step: Step) -> None:
    """Write a line for each optimizer's step in the first ones."""
    numbers = count()
    if os.environ.get("RANK", "0") != "0":
        return  # one rank tells for all

    def watch(optimizer: Optimizer) -> None:
        learner = _Learner(optimizer, next(numbers), folder / LEARNING, step)
        optimizer.register_step_pre_hook(partial(_unless_compiling, learner.begins))
        optimizer.register_step_post_hook(partial(_unless_compiling, learner.ends))

    made.on_built(watch)


def _unless_compiling(action: Callable[[], None], *_: Any) -> None:
    if not torch.compiler.is_compiling():
        attempt(action)


class _Learner:
    """One optimizer, before and after its step."""

    def __init__(self, optimizer: Optimizer, number: int, path: Path, step: Step) -> None:
        self._optimizer = optimizer
        self._number = number
        self._path = path
        self._step = step
        self._before: tuple[list[float], list[Tensor]] | None = None

    def begins(self) -> None:
        """Keep the length of each gradient, and some weights."""
        self._before = None
        if _counts(self._step()) and not _skips(self._optimizer):
            parameters = _parameters(self._optimizer)
            self._before = [_length(each.grad) for each in parameters], _some(parameters)

    def ends(self) -> None:
        """Write its number, both lengths, and which parameters learn and which do not."""
        if self._before is None:
            return
        (lengths, old), self._before = self._before, None
        new = _some(_parameters(self._optimizer))
        ways = [_length(b - a) for a, b in zip(old, new, strict=True)]
        whole, way = math.hypot(*lengths), math.hypot(*ways)
        both = list(enumerate(zip(lengths, ways, strict=True)))
        learn = [place for place, (a, b) in both if a > MATERIAL * whole and b > MATERIAL * way]
        idle = [place for place, (a, b) in both if not (a and b)]
        scale = float(getattr(self._optimizer, "grad_scale", None) or 1.0)
        with self._path.open("a", encoding="utf-8") as stream:
            line = [self._step(), self._number, whole / scale, way, learn, idle]
            stream.write(json.dumps(line) + "\n")


def _counts(step: int | None) -> bool:
    """Not while a graph is captured: there is nothing to read then, and to wait would end it."""
    captures = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    return step is not None and step < LEARNING_STEPS and not captures


def _skips(optimizer: Any) -> bool:
    """Whether a gradient scaler has told a fused optimizer not to step."""
    return bool(getattr(optimizer, "found_inf", None) or 0)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    every = (each for group in optimizer.param_groups for each in group["params"])
    return [each for each in every if each.is_floating_point() and _is_plain(each.data)]


def _is_plain(tensor: Tensor) -> bool:
    """Whether all of it is here and dense."""
    return type(tensor) is Tensor and tensor.layout == torch.strided and tensor.numel() > 0


def _some(parameters: list[Tensor]) -> list[Tensor]:
    flat = (each.detach().reshape(-1) for each in parameters)
    return [each[:: -(-each.numel() // SAMPLED)].clone() for each in flat]


def _length(tensor: Tensor | None) -> float:
    if tensor is None:
        return 0.0
    values = tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()
    return float(vector_norm(values if values.dtype in EXACT else values.float()))
