"""How the GroupNorm kernels are laid over the chip: strides, tiles, chunks, launches."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch

from pitstop.parts import group_norm_kernels as kernels
from pitstop.parts.launch import launch

Maybe = torch.Tensor | None


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


def strides_of(x: torch.Tensor) -> tuple[int, int, int] | None:
    """Strides of sample, position and channel; None where positions have no single stride."""
    shape, stride = x.shape, x.stride()
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


def power_of_two(number: int) -> int:
    """The next power of two, which Triton's tiles must be."""
    return 1 << max(number - 1, 0).bit_length()


@lru_cache(maxsize=64)
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # Triton's interpreter
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@lru_cache(maxsize=4096)
def plan(
    shape: tuple[int, ...], strides: tuple[int, int, int], groups: int, device: torch.device
) -> Grid:
    """Cut a tensor so that all multiprocessors have work and the parts stay few."""
    samples, channels = shape[:2]
    length = 1
    for size in shape[2:]:
        length *= size
    rows = strides[2] == 1 and strides[1] != 1
    tiling = ROWS if rows else PLANES
    block_c = min(power_of_two(channels), ROW) if rows else 1
    block_s = min(max(tiling.tile // block_c, 1), power_of_two(length))
    columns = samples * -(-channels // block_c)
    wanted = max(1, tiling.programs * _processors(device) // columns)
    wanted = min(wanted, max(1, MERGE_LIMIT // power_of_two(channels // groups)))
    chunk = -(-length // wanted)
    chunk = -(-chunk // block_s) * block_s
    programs = (-(-length // chunk), -(-channels // block_c), samples)
    tiles = (block_s, block_c, chunk)
    return Grid(samples, channels, length, strides, *tiles, programs, tiling.warps)


def _type(tensor: Maybe) -> torch.dtype | None:
    return None if tensor is None else tensor.dtype


def forward(
    x: torch.Tensor,
    grid: Grid,
    groups: int,
    affine: tuple[Maybe, Maybe],
    extra: tuple[Maybe, Maybe],
    options: tuple[float, bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result in the layout of ``x``, and the statistics (2, N, C)."""
    weight, bias = affine
    residual, channel_bias = extra
    eps, silu = options
    y = torch.empty_like(x)
    samples, channels, parts = grid.samples, grid.channels, grid.parts
    partials = torch.empty((2, samples, parts, channels), dtype=torch.float32, device=x.device)
    statistics = torch.empty((2, samples, channels), dtype=torch.float32, device=x.device)
    sizes = (channels, grid.length, grid.chunk)
    tile = (grid.block_s, grid.block_c, STAGES)
    key = (grid, x.dtype)
    launch(
        *(kernels.statistics_kernel, grid.programs, grid.warps, key, (x, partials)),
        *(*sizes, *grid.strides, *tile),
    )
    merged = (channel_bias is not None, *_merge(channels // groups, parts))
    launch(
        *(kernels.finish_statistics_kernel, (groups, samples, 1), MERGE_WARPS),
        *((grid, groups, eps, _type(channel_bias)), (partials, channel_bias, statistics)),
        *(parts, grid.length, grid.chunk, eps, *merged),
    )
    stride = channels if weight is not None and weight.dim() > 1 else 0
    given = (silu, residual is not None, weight is not None, bias is not None)
    launch(
        *(kernels.apply_kernel, grid.programs, grid.warps),
        (*key, *given, stride, _type(residual), _type(weight), _type(bias)),
        (x, residual, weight, bias, statistics, y),
        *(*sizes, stride, *grid.strides, *given, *tile),
    )
    return y, statistics


def _merge(width: int, parts: int) -> tuple[int, int, int]:
    """Channels of a group, and the tile that holds all its partial results."""
    return width, power_of_two(width), power_of_two(parts)


def backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    grid: Grid,
    groups: int,
    affine: tuple[Maybe, Maybe],
    statistics: torch.Tensor,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of ``x``, and per sample of weight and bias (N, C)."""
    weight, bias = affine
    grad_x = torch.empty_like(x)
    samples, channels, parts = grid.samples, grid.channels, grid.parts
    partials = torch.empty((2, samples, parts, channels), dtype=torch.float32, device=x.device)
    means = torch.empty((2, samples, channels), dtype=torch.float32, device=x.device)
    final = samples == 1 and weight is not None  # nothing is left to add up
    sums_type = _type(weight) if final else torch.float32
    grad_weight = torch.empty((samples, channels), dtype=sums_type, device=x.device)
    grad_bias = torch.empty((samples, channels), dtype=sums_type, device=x.device)
    stride = channels if weight is not None and weight.dim() > 1 else 0
    given = (silu, weight is not None, bias is not None)
    sizes = (channels, grid.length, grid.chunk, stride, *grid.strides)
    numbers = (*sizes, *given, grid.block_s, grid.block_c, STAGES)
    key = (grid, x.dtype, grad.dtype, stride, *given, _type(weight), _type(bias))
    launch(
        *(kernels.backward_sums_kernel, grid.programs, grid.warps, key),
        (x, grad, weight, bias, statistics, partials),
        *numbers,
    )
    launch(
        *(kernels.finish_backward_kernel, (groups, samples, 1), MERGE_WARPS, (*key, groups)),
        (partials, weight, grad_weight, grad_bias, means),
        *(stride, parts, grid.length, weight is not None, *_merge(channels // groups, parts)),
    )
    launch(
        *(kernels.backward_apply_kernel, grid.programs, grid.warps, key),
        (x, grad, weight, bias, statistics, means, grad_x),
        *numbers,
    )
    return grad_x, grad_weight, grad_bias
