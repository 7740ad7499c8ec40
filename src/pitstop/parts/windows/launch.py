"""How attention in windows is laid over the chip: tiles of scores, windows for each program."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from pitstop import internals
from pitstop.parts.launch import SIGNATURES, Launch, index_of
from pitstop.parts.layout import power_of_two
from pitstop.parts.windows import kernels

Maybe = torch.Tensor | None
SMALLEST = 16  # tokens, and width of a head: what a matrix product of Triton takes


class Tiling(NamedTuple):
    """Queries and keys of a tile at most, warps of a program, windows on their way to it."""

    rows: int
    columns: int
    warps: int
    stages: int


FORWARD = Tiling(64, 64, 4, 2)
FORWARD_ONE_TILE = Tiling(64, 128, 4, 2)  # all keys at once: the bias stays in registers
BACKWARD = Tiling(64, 64, 4, 1)
PROGRAMS = 4  # of each multiprocessor


class Shape(NamedTuple):
    """All that decides how a call is launched."""

    windows: int
    heads: int
    rows: int
    columns: int
    width: int
    positions: int  # of windows, each with a mask of its own; 0 without
    steps: tuple[int, ...]  # from window to window and from head to head; of masks the former
    tokens: tuple[int, int, int]  # from token to token of queries, keys and values
    mask_row: int
    types: tuple[torch.dtype | None, ...]
    device: torch.device
    tf32: bool


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,
    masked: Maybe,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the log of each query's sum. ``masked``: where a mask is not zero."""
    query, key, value = (_rows(each) for each in (query, key, value))
    mask = None if mask is None else _rows(mask)
    shape = _shape(query, key, value, bias, mask)
    output = query.new_empty((shape.windows, shape.rows, shape.heads, shape.width))
    sums = query.new_empty((shape.windows, shape.heads, shape.rows), dtype=torch.float32)
    _forward(shape, scale)(query, key, value, bias, mask, masked, output, sums)
    return output.transpose(1, 2), sums


def backward(  # noqa: PLR0913, PLR0917 (all that was kept)
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,
    masked: Maybe,
    output: torch.Tensor,
    sums: torch.Tensor,
    scale: float,
    needs_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Maybe]:
    """The gradients of queries, keys, values, and of the bias where it needs one."""
    grad, query, key, value = (_rows(each) for each in (grad.to(query.dtype), query, key, value))
    mask = None if mask is None else _rows(mask)
    shape = _shape(query, key, value, bias, mask)
    launch, down, across, splits = _backward(shape, grad.stride()[:3], scale, needs_bias)
    windows, heads, rows, columns, width = shape[:5]
    to_query = _shares(query, across, (windows, rows, heads, width))
    to_key = _shares(query, down, (windows, columns, heads, width))
    to_value = torch.empty_like(to_key)
    to_bias = None
    if needs_bias and bias is not None:
        to_bias = query.new_empty((splits, heads, rows, columns), dtype=torch.float32)
    kept = output.transpose(1, 2)
    given = (grad, query, key, value, bias, mask, masked, kept, sums)
    launch(*given, to_query, to_key, to_value, to_bias)
    dense = [_sum(each, query.dtype).transpose(1, 2) for each in (to_query, to_key, to_value)]
    if to_bias is not None and bias is not None:
        to_bias = _sum(to_bias, bias.dtype)
    return dense[0], dense[1], dense[2], to_bias


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose last axis lies in one piece."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _shares(like: torch.Tensor, count: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Memory for a gradient that several programs have a share in; sums are in float32."""
    return like.new_empty((count, *shape), dtype=torch.float32 if count > 1 else like.dtype)


def _sum(shares: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (shares[0] if shares.shape[0] == 1 else shares.sum(0)).to(dtype)


def _shape(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: Maybe, mask: Maybe
) -> Shape:
    windows, heads, rows, width = query.shape
    steps = (*query.stride()[:2], *key.stride()[:2], *value.stride()[:2])
    tokens = (query.stride(2), key.stride(2), value.stride(2))
    types = (query.dtype, *[None if each is None else each.dtype for each in (bias, mask)])
    positions, mask_step, mask_row = 0, 0, 0
    if mask is not None:
        positions, (mask_step, mask_row, _) = mask.shape[0], mask.stride()
    sizes = (windows, heads, rows, key.shape[2], width, positions)
    of_memory = ((*steps, mask_step), tokens, mask_row)
    return Shape(*sizes, *of_memory, types, query.device, uses_tf32())


def uses_tf32() -> bool:
    """Whether torch may round float32 matrix products; two interfaces say so."""
    newer = internals.fp32_precision
    if newer is None:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    return bool(newer("cuda", "matmul") == "tf32")


@lru_cache(maxsize=SIGNATURES)
def _forward(shape: Shape, scale: float) -> Launch:
    one_tile = shape.columns <= FORWARD_ONE_TILE.columns
    tiling = _fitted(FORWARD_ONE_TILE if one_tile else FORWARD, shape)
    programs = shape.heads * -(-shape.rows // tiling.rows)
    each, splits = _walks(shape, programs)
    numbers = (shape.windows, each, shape.positions, *shape.steps, scale)
    constants = _constants(shape, shape.tokens, tiling)
    return _launch(kernels.forward_kernel, (programs, splits, 1), tiling, shape, numbers, constants)


@lru_cache(maxsize=SIGNATURES)
def _backward(
    shape: Shape,
    grad_strides: tuple[int, ...],
    scale: float,
    needs_bias: bool,  # noqa: ARG001 (tells signatures apart)
) -> tuple[Launch, int, int, int]:
    """The launch, tiles down and across a window, and shares of the bias's gradient."""
    tiling = _fitted(BACKWARD, shape)
    down, across = -(-shape.rows // tiling.rows), -(-shape.columns // tiling.columns)
    programs = shape.heads * down * across
    each, splits = _walks(shape, programs)
    numbers = (shape.windows, each, shape.positions, *grad_strides[:2], *shape.steps, scale)
    constants = _constants(shape, (grad_strides[2], *shape.tokens), tiling)
    grid = (programs, splits, 1)
    launch = _launch(kernels.backward_kernel, grid, tiling, shape, numbers, constants)
    return launch, down, across, splits


def _launch(
    kernel: Any,
    grid: tuple[int, int, int],
    tiling: Tiling,
    shape: Shape,
    numbers: tuple[float, ...],
    constants: tuple[int, ...],
) -> Launch:
    settings = (*numbers, *constants, shape.tf32, tiling.stages)
    return Launch(kernel, grid, tiling.warps, index_of(shape.device), settings)


def _fitted(tiling: Tiling, shape: Shape) -> Tiling:
    """The same for windows that are smaller than a tile."""
    rows, columns = (max(power_of_two(each), SMALLEST) for each in (shape.rows, shape.columns))
    return tiling._replace(rows=min(rows, tiling.rows), columns=min(columns, tiling.columns))


def _walks(shape: Shape, programs: int) -> tuple[int, int]:
    """Windows of each program, and programs for one tile, so that all multiprocessors work."""
    wanted = -(-PROGRAMS * _processors(shape.device) // programs)
    each = -(-shape.windows // min(wanted, shape.windows))
    return each, -(-shape.windows // each)


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # Triton's interpreter
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _constants(shape: Shape, tokens: tuple[int, ...], tiling: Tiling) -> tuple[int, ...]:
    """What a kernel is compiled for."""
    wide = max(power_of_two(shape.width), SMALLEST)
    sizes = (shape.heads, shape.rows, shape.columns, shape.width, wide)
    return *tokens, shape.mask_row, *sizes, tiling.rows, tiling.columns
