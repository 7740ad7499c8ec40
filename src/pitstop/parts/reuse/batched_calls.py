"""Batched calls: one call of a module for several inputs of one shape.

Why plain PyTorch is slow here: ``encode(previous), encode(following), encode(between)`` launches
every kernel three times, each on a third of the work. Small inputs leave most of a GPU idle, and
weights are read from memory once for each call.

``batched`` stacks the inputs, calls the module once and splits the result. ``reused`` serves
inference over neighbouring pairs: a frame that was the second of one pair is the first of the next,
and its features are still there.

The floor: the weights are read once, and the arithmetic stays what it was. Sums may be rounded
otherwise, since kernels are chosen by shape. Refused: inputs of several shapes; batch statistics
(BatchNorm in training), which would be those of the stack. Dropout draws other numbers. Both calls
of a pair belong to one set of weights: an optimizer's step must not lie between them, which one
call makes impossible. The twin is one call after the other.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.core.errors import PitstopError
from pitstop.parts.reuse import results

MOST_KEPT = 2  # frames: a pair, of which one comes again


def batched(module: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Call it once for all inputs; the results come as a list, one for each input.

    first, second, third = batched(encoder)(previous, following, between)

    Named arguments go along as they are.
    """
    refuse_batch_statistics(module)

    def call(*inputs: torch.Tensor, **named: Any) -> list[Any]:
        if not inputs:
            return []
        _refuse_other_shapes(inputs)
        together = torch.cat(inputs)
        result = module(together, **named)
        ends = accumulate(map(len, inputs))
        return [
            results.part(result, end - len(each), len(each), len(together))
            for each, end in zip(inputs, ends, strict=True)
        ]

    return call


def reused(module: Callable[[torch.Tensor], Any], keep: int = MOST_KEPT) -> Callable[..., Any]:
    """Call it again only for inputs that are not among the last ones; for inference.

    An input is the same if it is the same tensor, and nobody has written to it since.
    """
    refuse_batch_statistics(module)
    # Inputs are held, so that no other tensor takes their place in memory.
    known: list[tuple[torch.Tensor, int, Any]] = []

    def call(frame: torch.Tensor) -> Any:
        if torch.is_grad_enabled():
            raise PitstopError("features are reused without gradients only: use torch.no_grad()")
        if frame.is_inference():
            raise PitstopError(
                "inference mode does not tell when a tensor is written to: use torch.no_grad()"
            )
        for each, version, result in known:
            if each is frame and version == internals.version(frame):
                return result
        result = module(frame)
        known.append((frame, internals.version(frame), result))
        del known[:-keep]
        return result

    return call


def _refuse_other_shapes(inputs: Sequence[torch.Tensor]) -> None:
    kinds = {(each.shape[1:], each.dtype, each.device) for each in inputs}
    if len(kinds) > 1:
        shapes = ", ".join(str(tuple(each.shape)) for each in inputs)
        raise PitstopError(f"inputs of {shapes}: one call takes one shape, type and device")


def refuse_batch_statistics(module: Any) -> None:
    """A batch norm in training mode, or one that never keeps statistics, sees the whole stack."""
    for name, each in module.named_modules() if isinstance(module, nn.Module) else ():
        if isinstance(each, internals.BatchNorm) and (each.training or each.running_mean is None):
            cure = "call eval() first" if each.track_running_stats else "call it for each alone"
            raise PitstopError(
                f"{name or type(each).__name__} takes the statistics of its batch, and would take "
                f"those of all inputs together: {cure}"
            )
