"""Measure what a block keeps for its backward pass, and how long it takes.

Autograd hands every tensor that it saves to the innermost pair of hooks. Ours counts it and hands
it on to the pair below, which is the checkpoint's. The memory is held until the block is done, as
when it is computed again: what is freed earlier could not be told from what is made next.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from pitstop import internals

Function = Callable[..., Any]


class Measured:
    """A function that tells what its first call keeps and takes."""

    def __init__(self, function: Function, weights: Iterable[torch.Tensor]) -> None:
        self._function = function
        self._weights = weights
        self.held_bytes = 0
        self.ms = 0.0

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it and count each piece of memory once, without weights and what it is given."""
        if self.ms or not torch.is_grad_enabled():
            return self._function(*given, **named)
        known = {_storage(each) for each in (*self._weights, *_tensors((given, named)))}
        below = internals.saved_tensor_hooks(True)
        held: list[torch.Tensor] = []

        def pack(tensor: torch.Tensor) -> Any:
            if tensor.layout == torch.strided and _storage(tensor) not in known:
                known.add(_storage(tensor))
                held.append(tensor)
            return below[0](tensor) if below else tensor

        def unpack(packed: Any) -> Any:
            return below[1](packed) if below else packed

        wait()
        begun_s = time.perf_counter()
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            result = self._function(*given, **named)
        wait()
        self.ms = 1e3 * (time.perf_counter() - begun_s)
        self.held_bytes = sum(each.untyped_storage().nbytes() for each in held)
        return result


def _tensors(values: Any) -> Iterable[torch.Tensor]:
    return [each for each in internals.tree_leaves(values) if isinstance(each, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(internals.storage_key(tensor.untyped_storage()))


def wait() -> None:
    """Let the GPU finish, where there is one."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def in_use_bytes() -> int:
    """Of the GPU's memory now; 0 without one."""
    return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0


def device_bytes() -> int | None:
    """All that the GPU has; none without one."""
    if not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
