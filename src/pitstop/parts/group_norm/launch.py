"""How the GroupNorm kernels are laid over the chip: strides, tiles, chunks, launches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import torch

from pitstop.parts import layout
from pitstop.parts.group_norm import backward_kernels, kernels
from pitstop.parts.group_norm.whole import whole
from pitstop.parts.launch import SIGNATURES, Launch, index_of

Maybe = torch.Tensor | None
Type = torch.dtype | None
Forward = Callable[..., tuple[torch.Tensor, Maybe]]


class Tiling(NamedTuple):
    """Elements of a tile, warps of a program, programs per multiprocessor."""

    tile: int
    warps: int
    programs: int


PLANES = Tiling(2048, 4, 16)  # channels-first; both are the best of a sweep on an H200
ROWS = Tiling(4096, 8, 8)  # channels-last
MERGE_WARPS = 8
STAGES = 3  # tiles in flight per program
ROW = 512  # most channels of one channels-last program
MERGE_LIMIT = 8192  # most partial results of one group, all held in one program's registers


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: ``plan`` keeps them
class Grid:
    """One tensor cut into programs: chunks of positions x blocks of channels x samples."""

    samples: int
    channels: int
    length: int
    strides: tuple[int, int, int]  # of sample, position, channel
    block_s: int
    block_c: int
    chunk: int
    programs: tuple[int, int, int]
    warps: int

    @property
    def parts(self) -> int:
        """Chunks of positions, each with statistics of its own."""
        return self.programs[0]


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The three launches of a signature: sums over chunks, their merge per group, the result."""

    copied: bool  # whether x has to be laid out anew first
    partials: tuple[int, int, int, int]
    sums: Launch
    merge: Launch
    apply: Launch

    def __call__(
        self, x: torch.Tensor, weight: Maybe, bias: Maybe, residual: Maybe, channel_bias: Maybe
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All three, forward: the result and the statistics."""
        if self.copied:
            x = x.contiguous()
        if residual is not None:
            residual = layout.laid_out_like(x, residual)
        y, statistics = torch.empty_like(x), self.statistics(x, channel_bias)
        self.apply(x, residual, weight, bias, statistics, y)
        return y, statistics

    def statistics(self, x: torch.Tensor, channel_bias: Maybe) -> torch.Tensor:
        """The first two: centre and scale (2, N, C)."""
        statistics = x.new_empty((2, *x.shape[:2]), dtype=torch.float32)
        partials = x.new_empty(self.partials, dtype=torch.float32)
        self.sums(x, partials)
        self.merge(partials, channel_bias, statistics)
        return statistics


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # Triton's interpreter
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@lru_cache(maxsize=SIGNATURES)
def plan(
    shape: tuple[int, ...], strides: tuple[int, int, int], groups: int, device: torch.device
) -> Grid:
    """Cut a tensor so that all multiprocessors have work and the parts stay few."""
    samples, channels = shape[:2]
    length = prod(shape[2:])
    rows = strides[2] == 1 and strides[1] != 1
    tiling = ROWS if rows else PLANES
    block_c = min(layout.power_of_two(channels), ROW) if rows else 1
    block_s = min(max(tiling.tile // block_c, 1), layout.power_of_two(length))
    columns = samples * -(-channels // block_c)
    wanted = max(1, tiling.programs * _processors(device) // columns)
    wanted = min(wanted, max(1, MERGE_LIMIT // layout.power_of_two(channels // groups)))
    chunk = -(-length // wanted)
    chunk = -(-chunk // block_s) * block_s
    programs = (-(-length // chunk), -(-channels // block_c), samples)
    tiles = (block_s, block_c, chunk)
    return Grid(samples, channels, length, strides, *tiles, programs, tiling.warps)


def _walk(
    shape: torch.Size, stride: tuple[int, ...], groups: int, device: torch.device
) -> tuple[Grid, bool]:
    """How a tensor is cut, and whether it must be made contiguous for that."""
    strides = layout.walk(shape, stride)
    if strides is not None:
        return plan(shape, strides, groups, device), False
    length = prod(shape[2:])
    return plan(shape, (shape[1] * length, 1, length), groups, device), True


def _merge(grid: Grid, groups: int) -> tuple[int, int, int]:
    """Channels of a group, and the tile that holds all its partial results."""
    width = grid.channels // groups
    return width, layout.power_of_two(width), layout.power_of_two(grid.parts)


def _type(tensor: Maybe) -> Type:
    return None if tensor is None else tensor.dtype


def forward(  # noqa: PLR0913, PLR0917 (the operator's arguments)
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
    keep: bool = True,
) -> tuple[torch.Tensor, Maybe]:
    """The result in the layout of ``x``, and the statistics (2, N, C) where they are kept."""
    types = (x.dtype, _type(residual), _type(weight), _type(bias), _type(channel_bias))
    per_sample = weight is not None and weight.dim() > 1
    run = _forward(x.shape, x.stride(), x.device, groups, eps, silu, per_sample, keep, types)
    return run(x, weight, bias, residual, channel_bias)


@lru_cache(maxsize=SIGNATURES)
def _forward(  # noqa: PLR0913, PLR0917 (all that decides)
    shape: torch.Size,
    stride: tuple[int, ...],
    device: torch.device,
    groups: int,
    eps: float,
    silu: bool,
    per_sample: bool,
    keep: bool,
    types: tuple[Type, ...],
) -> Forward:
    """What computes all calls of one signature."""
    if 0 in shape:
        return _nothing
    strides = layout.walk(shape, stride)
    if strides is not None:
        given = tuple(each is not None for each in types[1:])
        one = whole(shape, strides, device, groups, (eps, silu, per_sample, given, keep))
        if one is not None:
            return one
    return _forward_passes(shape, stride, device, groups, eps, silu, per_sample, types)


def _nothing(x: torch.Tensor, *_: Maybe) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((2, *x.shape[:2]), dtype=torch.float32)


def statistics_of(x: torch.Tensor, channel_bias: Maybe, groups: int, eps: float) -> torch.Tensor:
    """The statistics alone, of what is not empty: centre and scale (2, N, C)."""
    types = (x.dtype, None, None, None, _type(channel_bias))
    passes = _forward_passes(x.shape, x.stride(), x.device, groups, eps, False, False, types)
    return passes.statistics(x.contiguous() if passes.copied else x, channel_bias)


@lru_cache(maxsize=SIGNATURES)
def _forward_passes(
    shape: torch.Size,
    stride: tuple[int, ...],
    device: torch.device,
    groups: int,
    eps: float,
    silu: bool,
    per_sample: bool,
    types: tuple[Type, ...],
) -> Passes:
    grid, copied = _walk(shape, stride, groups, device)
    index = index_of(device)
    sizes = (grid.channels, grid.length, grid.chunk)
    tile = (grid.block_s, grid.block_c, STAGES)
    *given, channel_biased = [each is not None for each in types[1:]]
    merged = (grid.parts, *sizes[1:], eps, channel_biased, *_merge(grid, groups))
    affine_stride = grid.channels if per_sample else 0
    applied = (*sizes, affine_stride, *grid.strides, silu, *given, *tile)
    chunks = (grid.programs, grid.warps, index)
    group_by_group = ((groups, grid.samples, 1), MERGE_WARPS, index)
    return Passes(
        copied,
        (2, grid.samples, grid.parts, grid.channels),
        Launch(kernels.statistics_kernel, *chunks, (*sizes, *grid.strides, *tile)),
        Launch(kernels.finish_statistics_kernel, *group_by_group, merged),
        Launch(kernels.apply_kernel, *chunks, applied),
    )


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    statistics: torch.Tensor,
    groups: int,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of ``x``, weight and bias; the last two as (N, C) or (C,), like the affine."""
    shape, device = x.shape, x.device
    per_sample = weight is not None and weight.dim() > 1
    one = shape[0] == 1  # nothing is left to add up after the kernels
    sums_shape = shape[1:2] if one and not per_sample else shape[:2]
    sums_type = weight.dtype if one and weight is not None else torch.float32
    grad_weight = torch.empty(sums_shape, dtype=sums_type, device=device)
    grad_bias = torch.empty(sums_shape, dtype=sums_type, device=device)
    if x.numel() == 0:
        grad_x = torch.empty_like(x)
        grad_weight.zero_()
        grad_bias.zero_()
    else:
        types = (x.dtype, grad.dtype, _type(weight), _type(bias))
        passes = _backward_passes(shape, x.stride(), device, groups, silu, per_sample, types)
        if passes.copied:
            x = x.contiguous()
        grad = layout.laid_out_like(x, grad)
        grad_x = torch.empty_like(x)
        partials = torch.empty(passes.partials, dtype=torch.float32, device=device)
        means = torch.empty_like(statistics)
        passes.sums(x, grad, weight, bias, statistics, partials)
        passes.merge(partials, weight, grad_weight, grad_bias, means)
        passes.apply(x, grad, weight, bias, statistics, means, grad_x)
    if one or per_sample:
        return grad_x, grad_weight, grad_bias
    return grad_x, grad_weight.sum(0), grad_bias.sum(0)


@lru_cache(maxsize=SIGNATURES)
def _backward_passes(
    shape: torch.Size,
    stride: tuple[int, ...],
    device: torch.device,
    groups: int,
    silu: bool,
    per_sample: bool,
    types: tuple[Type, ...],
) -> Passes:
    grid, copied = _walk(shape, stride, groups, device)
    index = index_of(device)
    affine_stride = grid.channels if per_sample else 0
    given = [each is not None for each in types[2:]]
    sizes = (grid.channels, grid.length, grid.chunk, affine_stride, *grid.strides)
    numbers = (*sizes, silu, *given, grid.block_s, grid.block_c, STAGES)
    merged = (affine_stride, grid.parts, grid.length, given[0], *_merge(grid, groups))
    chunks = (grid.programs, grid.warps, index)
    group_by_group = ((groups, grid.samples, 1), MERGE_WARPS, index)
    return Passes(
        copied,
        (2, grid.samples, grid.parts, grid.channels),
        Launch(backward_kernels.backward_sums_kernel, *chunks, numbers),
        Launch(backward_kernels.finish_backward_kernel, *group_by_group, merged),
        Launch(backward_kernels.backward_apply_kernel, *chunks, numbers),
    )
