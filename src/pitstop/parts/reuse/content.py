"""Content: inputs and weights told apart by their bytes."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from pitstop.core.errors import PitstopError

MIXED = 65_521  # a prime: numbers are weighted by their place modulo this, so that order counts
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a number


def digest_of(*values: Any) -> str:
    """The same text for the same values, of any nesting."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, values)
    return digest.hexdigest()


def digest_of_weights(module: nn.Module) -> str:
    """The same text for the same weights: two sums over each tensor, computed where it lies."""
    digest = hashlib.blake2b(digest_size=16)
    with torch.no_grad():
        for name, tensor in sorted(module.state_dict().items()):
            if isinstance(tensor, torch.Tensor):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(repr(_sums(tensor)).encode())
    return digest.hexdigest()


def _sums(tensor: torch.Tensor) -> tuple[int, int]:
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    whole = flat.view(INTEGERS[flat.element_size()]).to(torch.int64)
    places = torch.arange(1, len(whole) + 1, device=whole.device) % MIXED
    return int(whole.sum()), int((whole * places).sum())


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1)
        digest.update(f"tensor {value.dtype} {tuple(value.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)}".encode())
        for key in sorted(value, key=str):
            _add(digest, key)
            _add(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"sequence {len(value)}".encode())
        for each in value:
            _add(digest, each)
    elif isinstance(value, str | bytes | int | float | bool | torch.dtype | torch.device | None):
        text = value if isinstance(value, bytes) else repr(value).encode()
        digest.update(f"{type(value).__name__} {len(text)} ".encode() + text)
    else:
        raise PitstopError(
            f"a {type(value).__name__} among the inputs cannot be told from others: give key="
        )
