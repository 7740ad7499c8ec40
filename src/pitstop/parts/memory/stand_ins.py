"""Stand-ins: a copy of models, optimizers and batches whose tensors have shapes and no bytes.

The copy is Python's own deep copy, in which each tensor is copied by us. So whatever refers to a
weight in the original (an optimizer, a list, another module) refers to its stand-in in the copy.
"""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from pitstop import internals
from pitstop.core.errors import PitstopError

Anything = TypeVar("Anything")
_lock = threading.Lock()  # copying is taught to torch.Tensor for a moment


def stand_in_for(things: Anything, fake_mode: Any, device: str) -> Anything:
    """Copy ``things``; tensors become fake ones on ``device``."""
    with _lock, _copying_fakes(fake_mode, torch.device(device)):
        try:
            return copy.deepcopy(things)
        except PitstopError:
            raise
        except Exception as error:  # noqa: BLE001 classes of the user's may do anything
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            raise PitstopError(
                f"model, optimizer and batch must be copied to be looked at ({said}): "
                "leave out hooks, locks and open files"
            ) from None


@contextmanager
def _copying_fakes(fake_mode: Any, device: torch.device) -> Iterator[None]:
    known: dict[int, torch.Tensor] = {}  # shared memory stays shared

    def copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if id(tensor) not in memo:
            memo[id(tensor)] = _fake(tensor, fake_mode, device, known)
            if tensor.is_leaf and tensor.grad is not None:
                memo[id(tensor)].grad = copied(tensor.grad, memo)
        found = memo[id(tensor)]
        assert isinstance(found, torch.Tensor)
        return found

    kinds: tuple[Any, Any] = (torch.Tensor, nn.Parameter)
    originals = [each.__deepcopy__ for each in kinds]
    try:
        for kind in kinds:
            kind.__deepcopy__ = copied
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__deepcopy__ = original


def _fake(
    tensor: torch.Tensor, fake_mode: Any, device: torch.device, known: dict[int, torch.Tensor]
) -> torch.Tensor:
    if tensor.layout != torch.strided:
        raise PitstopError(f"a tensor with layout {tensor.layout} cannot be looked at: use strided")
    if nn.parameter.is_lazy(tensor):
        raise PitstopError("the model has lazy parameters: call it once, so that they get a shape")
    storage = tensor.untyped_storage()
    key = internals.storage_key(storage)
    with fake_mode, torch.no_grad():
        whole = storage.nbytes() == tensor.numel() * tensor.element_size()
        if whole and key not in known:
            made = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device
            )
            known[key] = made
        else:
            made = _view(tensor, key, device, known)
        made = made.detach()
        if isinstance(tensor, nn.Parameter):
            made = nn.Parameter(made, tensor.requires_grad)
        elif tensor.is_leaf:
            made.requires_grad_(tensor.requires_grad)
    return made


def _view(
    tensor: torch.Tensor, key: int, device: torch.device, known: dict[int, torch.Tensor]
) -> torch.Tensor:
    """A part of memory that other tensors may use, too."""
    if key not in known:
        numbers = tensor.untyped_storage().nbytes() // tensor.element_size()
        known[key] = torch.empty(numbers, dtype=tensor.dtype, device=device)
    base = known[key]
    if base.dtype != tensor.dtype:
        base = base.view(-1).view(tensor.dtype)
    return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
