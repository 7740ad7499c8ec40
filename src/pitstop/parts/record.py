"""What autograd is told of a part, at little CPU cost, and where the twin stands in.

``Function.apply`` spends a third of its time on ``torch.func``, whose transforms cannot look into a
kernel anyway: they get the twin. So does ``create_graph=True``: the kernels compute first
derivatives, the twins are plain PyTorch and have them all.
"""

from collections.abc import Sequence
from typing import Any

import torch

from pitstop import internals


def is_transformed() -> bool:
    """Whether ``torch.func`` (grad, vmap, ...) is at work, so that the twin must run."""
    return internals.is_transformed()


def recorded(function: Any, *inputs: Any) -> Any:
    """Call an ``autograd.Function`` where ``is_transformed`` is known to be false."""
    return super(torch.autograd.Function, function).apply(*inputs)


def twice_differentiable(
    output: torch.Tensor, inputs: Sequence[Any], needs: Sequence[bool], grad: torch.Tensor
) -> tuple[Any, ...]:
    """Gradients of those inputs of the twin's ``output`` that need one, None for the others."""
    wanted = [each for each, need in zip(inputs, needs, strict=True) if need]
    found = iter(torch.autograd.grad(output, wanted, grad, create_graph=True))
    return tuple([next(found) if need else None for need in needs])
