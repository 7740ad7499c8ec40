"""Snapshot: copies of weights, buffers and optimizer state, to go back to."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

ROOM = 2.0  # times the copies: with less free memory on the GPU they are kept on the host


class Snapshot:
    """Copies of tensors at one moment; taking the next one writes into the same memory."""

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]
    ) -> None:
        self._modules = modules
        self._optimizers = optimizers
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._states: list[dict[Any, dict[str, Any]]] = []
        self.step = -1  # after which it was taken

    @torch.no_grad()
    def take(self, step: int) -> None:
        """Copy all as it is now."""
        now = _unique(self._tensors())
        if [id(tensor) for tensor, _ in self._copies] != [id(each) for each in now]:
            self._copies = [(each, _room_for(each)) for each in now]
        for tensor, copy in self._copies:
            copy.copy_(tensor, non_blocking=True)
        self._states = [
            {parameter: dict(state) for parameter, state in each.state.items()}
            for each in self._optimizers
        ]
        self.step = step

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back; state that came later is gone."""
        for tensor, copy in self._copies:
            tensor.copy_(copy, non_blocking=True)
        for optimizer, states in zip(self._optimizers, self._states, strict=True):
            for parameter in [each for each in optimizer.state if each not in states]:
                del optimizer.state[parameter]
            for parameter, state in states.items():
                optimizer.state[parameter].clear()
                optimizer.state[parameter].update(state)

    def _tensors(self) -> Iterable[torch.Tensor]:
        for module in self._modules:
            yield from module.parameters()
            yield from module.buffers()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]
            for state in optimizer.state.values():
                yield from (each for each in state.values() if isinstance(each, torch.Tensor))


def statistics(modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Buffers with numbers that a forward pass writes, such as running means."""
    return _unique(
        each for module in modules for each in module.buffers() if each.is_floating_point()
    )


def _unique(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(each): each for each in tensors}.values())


def _room_for(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cuda":
        free_bytes, _ = torch.cuda.mem_get_info(tensor.device)
        if free_bytes < ROOM * tensor.nbytes:
            return torch.empty_like(tensor, device="cpu", pin_memory=True)
    return torch.empty_like(tensor)
