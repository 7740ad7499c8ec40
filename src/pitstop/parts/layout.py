"""How a tensor lies in memory: three strides that a kernel can walk by, and a result's layout.

A kernel sees samples x positions x channels with one stride each. What has more of them (a cut, a
transposed picture) is made contiguous first, and its result is contiguous as well. ``like`` tells
``torch.compile`` the same, before anything runs.
"""

from collections.abc import Sequence
from math import prod

import torch

Strides = tuple[int, int, int]  # of sample, position, channel


def strides_of(x: torch.Tensor) -> Strides | None:
    """The three strides; None where positions have no single one."""
    return _strides(x.shape, x.stride())


def walk(shape: Sequence[int], stride: Sequence[int]) -> Strides | None:
    """The three strides of what fills its memory without gaps; None for everything else."""
    return _strides(shape, stride) if _is_dense(shape, stride) else None


def like(x: torch.Tensor) -> torch.Tensor:
    """An empty tensor laid out as the kernels lay out their result for ``x``."""
    walked = x.numel() == 0 or walk(x.shape, x.stride()) is not None
    return torch.empty_like(x) if walked else x.new_empty(x.shape)


def flat(shape: Sequence[int]) -> tuple[int, int, int]:
    """Samples, channels and positions."""
    return shape[0], shape[1], prod(shape[2:])


def laid_out_like(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``other`` with the strides of ``x``, which the kernels address both by."""
    if other.stride() == x.stride():
        return other
    return torch.empty_like(x, dtype=other.dtype).copy_(other)


def power_of_two(number: int) -> int:
    """The next power of two, which Triton's tiles must be."""
    return 1 << max(number - 1, 0).bit_length()


def _strides(shape: Sequence[int], stride: Sequence[int]) -> Strides | None:
    position, expected = shape[1], None  # a single position: any stride will do
    for size, step in zip(reversed(shape[2:]), reversed(stride[2:]), strict=True):
        if size == 1:
            continue
        if expected is None:
            position = step
        elif step != expected:
            return None
        expected = step * size
    channel = stride[1] if shape[1] > 1 else 1
    if position != 1 and channel != 1:
        return None
    return stride[0] if shape[0] > 1 else 0, position, channel


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements fill their memory without gaps, in whatever order of dimensions."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size > 1:
            if step != expected:
                return False
            expected *= size
    return True
