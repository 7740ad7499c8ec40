"""Tensors: what can be told about one without changing or copying it."""

from collections.abc import Iterator
from typing import Any

import torch

from pitstop import internals

ADDRESS = internals.tensor_address  # the script's own requests for it are listened to
UNKNOWN = (0, -1)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """All tensors among nested values."""
    return [each for each in internals.tree_iter(values) if isinstance(each, torch.Tensor)]


def storages_in(values: Any) -> Iterator[torch.UntypedStorage]:
    """The memory behind each of them; sparse and foreign ones have none."""
    for tensor in tensors_in(values):
        try:
            yield tensor.untyped_storage()
        except (RuntimeError, NotImplementedError, ValueError):
            continue


def identity(tensor: torch.Tensor) -> tuple[int, int]:
    """Address, and how often it was written to; inference tensors do not count that."""
    try:
        return ADDRESS(tensor), internals.writes(tensor)
    except (RuntimeError, NotImplementedError):
        return UNKNOWN


def shapes_of(tensors: list[torch.Tensor]) -> str:
    """Shapes and types: ``float32[1,512,64,64]@cuda int64[512]@cpu``."""
    return " ".join(
        f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}@{each.device.type}"
        for each in tensors
    ).replace(", ", ",")
