"""Learning: what the optimizers do in the first steps.

Losses of a few steps may hardly tell a model that learns from one that does not, or of which a part
has lost its gradients. The length of each optimizer's gradients, that of the way which its weights
are moved, and those that are not, tell at once.
"""

import json
import math
import os
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.optim import Optimizer

from pitstop.tune.made import Made
from pitstop.tune.plan import LEARNING, LEARNING_STEPS

SAMPLED = 4096  # values of each parameter, evenly spread, whose way is measured
Step = Callable[[], int | None]  # steps done before this one, where its numbers count


def record(made: Made, folder: Path, step: Step) -> None:
    """Write a line for each optimizer's step in the first ones: which, two lengths, what stays."""
    numbers = count()
    if os.environ.get("RANK", "0") != "0":
        return  # one rank tells for all

    def watch(optimizer: Optimizer) -> None:
        number = next(numbers)
        before: list[Any] = []  # while it steps: the length of its gradients, and some weights

        def begins(*_: Any) -> None:
            if torch.compiler.is_compiling():
                return
            before.clear()
            if _counts(step()) and not _skips(optimizer):
                before.extend((_length(_gradients(optimizer)), _some(optimizer)))

        def ends(*_: Any) -> None:
            if not torch.compiler.is_compiling() and before:
                gradients, old = before
                ways = [_length([b - a]) for a, b in zip(old, _some(optimizer), strict=True)]
                still = [place for place, way in enumerate(ways) if not way]
                scale = float(getattr(optimizer, "grad_scale", None) or 1.0)
                line = [step(), number, gradients / scale, math.hypot(*ways), still]
                with (folder / LEARNING).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line) + "\n")
                before.clear()

        optimizer.register_step_pre_hook(begins)
        optimizer.register_step_post_hook(ends)

    made.on_built(watch)


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


def _gradients(optimizer: Optimizer) -> list[Tensor]:
    every = (each.grad for each in _parameters(optimizer))
    return [each.detach() for each in every if each is not None and _is_plain(each)]


def _is_plain(tensor: Tensor) -> bool:
    """Whether all of it is here and dense."""
    return type(tensor) is Tensor and tensor.layout == torch.strided and tensor.numel() > 0


def _some(optimizer: Optimizer) -> list[Tensor]:
    flat = (each.detach().reshape(-1) for each in _parameters(optimizer))
    return [each[:: -(-each.numel() // SAMPLED)].float().clone() for each in flat]


def _length(tensors: Iterable[Tensor]) -> float:
    return math.hypot(*(float(vector_norm(each, dtype=torch.float32)) for each in tensors))
