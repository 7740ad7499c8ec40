"""Who computes a call: the kernel, torch's fused attention or the twin, whichever is fastest.

What is possible follows from shapes and types. What is fastest is measured once for each kind of
call, on random numbers of such shapes. Calls that differ in nothing but the number of windows, up
to twice as many, are of one kind; after ``MOST_KINDS`` kinds no more is measured.
"""

import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES, SIGNATURES

Maybe = torch.Tensor | None
Scale = float | torch.Tensor | None
Run = Callable[..., torch.Tensor]
WIDEST = 64  # of a head; wider ones are what torch's own fused attention is made for
MOST_TOKENS = 1024  # of a window, for the same reason
REPEATS = 3  # runs after one warm-up; the fastest counts, since noise only adds
WORTH = 0.9  # of the time of what comes first here, at most: less is within the noise
MOST_KINDS = 64  # that are measured: a kernel is compiled for each number of tokens
KERNEL_RUNS_ON = "cuda"


class Way(Enum):
    """Who computes a call; the first that can is preferred."""

    KERNEL = "kernel"
    SDPA = "scaled_dot_product_attention"
    TWIN = "plain PyTorch"


class Given(NamedTuple):
    """A tensor without its numbers."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    needs_gradient: bool


class Call(NamedTuple):
    """All that decides who can compute a call, and who is fastest."""

    query: Given
    key: Given
    value: Given
    bias: Given | None
    mask: Given | None
    scale: Given | None  # None for a number
    records: bool  # for a backward pass
    autocast: torch.dtype | None
    precision: str  # of float32 products

    @property
    def tensors(self) -> list[Given]:
        """Those that are given."""
        return [each for each in self[:6] if isinstance(each, Given)]


def call_of(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,
    scale: Scale,
) -> Call:
    """What is asked for, without the numbers."""
    kind = query.device.type
    autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    return Call(
        *(_given(query), _given(key), _given(value)),
        None if bias is None else _given(bias),
        None if mask is None else _given(mask),
        _given(scale) if isinstance(scale, torch.Tensor) else None,
        torch.is_grad_enabled(),
        autocast,
        torch.get_float32_matmul_precision(),
    )


def _given(tensor: torch.Tensor) -> Given:
    gradient = tensor.requires_grad
    return Given(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, gradient)


def choose(call: Call, runs: Mapping[Way, Run]) -> Way:
    """Who computes this call; whoever comes first where nothing can be measured."""
    if torch.compiler.is_compiling():
        return Way.KERNEL if kernel_fits(call) else Way.TWIN
    ways = possible(call)
    if len(ways) == 1:
        return ways[0]
    kind, known = kind_of(call), _fastest_known()
    if kind not in known:
        if len(known) >= MOST_KINDS or _is_captured(call):
            return Way.TWIN
        known[kind] = _fastest(kind, ways, tuple(runs[each] for each in ways))
    return known[kind]


@cache
def _fastest_known() -> dict[Call, Way]:
    """What was measured in this process."""
    return {}


def kind_of(call: Call) -> Call:
    """The same with a power of two of windows, and of positions where there is a mask.

    Tensors of some windows lie as the first ones of those that were given.
    """
    windows = call.query.shape[0] if len(call.query.shape) == 4 else 0
    if windows < 2:
        return call
    count = _power(windows)
    query, key, value = (_first(each, windows, count) for each in call[:3])
    mask = call.mask
    if mask is not None and len(mask.shape) == 3:
        positions = mask.shape[0]
        mask = _first(mask, positions, min(_power(positions), count))
    return call._replace(query=query, key=key, value=value, mask=mask)


def _first(given: Given, of: int, count: int) -> Given:
    """The first ``count`` of so many."""
    if not given.shape or given.shape[0] != of:
        return given
    return given._replace(shape=torch.Size((count, *given.shape[1:])))


def _power(number: int) -> int:
    """The largest power of two up to it."""
    return 1 << max(number.bit_length() - 1, 0)


def _is_captured(call: Call) -> bool:
    return call.query.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@lru_cache(maxsize=SIGNATURES)
def possible(call: Call) -> tuple[Way, ...]:
    """Who can compute it; the twin always can."""
    return (*[Way.KERNEL] * kernel_fits(call), *[Way.SDPA] * sdpa_fits(call), Way.TWIN)


def kernel_fits(call: Call) -> bool:
    """Whether the kernel can compute it."""
    query, key, value = call[:3]
    kinds = {each.dtype for each in (query, key, value)}
    places = {each.device for each in call.tensors}
    if not (HAS_TRITON and query.device.type == KERNEL_RUNS_ON and len(places) == 1):
        return False
    if len(query.shape) != 4 or len(kinds) != 1 or not kinds <= KERNEL_TYPES:
        return False
    windows, heads, rows, width = query.shape
    columns = key.shape[-2]
    if key.shape != (windows, heads, columns, width) or value.shape != key.shape:
        return False
    if 0 in (*query.shape, *key.shape) or width > WIDEST or max(rows, columns) > MOST_TOKENS:
        return False
    return (
        _bias_fits(call.bias, (heads, rows, columns))
        and _mask_fits(call.mask, (windows, rows, columns))
        and _scale_fits(call.scale, query.shape)
    )


def _bias_fits(bias: Given | None, scores: tuple[int, int, int]) -> bool:
    if bias is None:
        return True
    own = bias.shape
    shape = own[1:] if len(own) == 4 and own[0] == 1 else own
    fits = len(shape) <= 3 and _broadcasts(shape, scores)
    return fits and bias.dtype in KERNEL_TYPES


def _mask_fits(mask: Given | None, scores: tuple[int, int, int]) -> bool:
    if mask is None:
        return True
    windows, *tokens = scores
    fits = len(mask.shape) == 3 and list(mask.shape[1:]) == tokens and mask.shape[0] > 0
    return (
        fits
        and windows % mask.shape[0] == 0
        and mask.dtype in KERNEL_TYPES
        and not mask.needs_gradient
    )


def _scale_fits(scale: Given | None, query: torch.Size) -> bool:
    """Whether scores times this are those of queries times this."""
    if scale is None:
        return True
    return all(each == 1 for each in scale.shape[-2:]) and _broadcasts(scale.shape, query)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    behind = to[len(to) - len(shape) :] if len(shape) <= len(to) else ()
    return len(behind) == len(shape) and all(
        one in {1, other} for one, other in zip(shape, behind, strict=True)
    )


def sdpa_fits(call: Call) -> bool:
    """Whether torch's own may be faster: not where it would write the scores as well."""
    bias, query, key = call.bias, call.query, call.key
    if call.mask is not None or len(query.shape) != 4 or query.device.type not in {"cuda", "cpu"}:
        return False
    if key.shape[:2] != query.shape[:2] or call.value.shape[:-1] != key.shape[:-1]:
        return False
    if bias is not None and bias.needs_gradient and call.records:
        return False
    return _scale_fits(call.scale, query.shape)


def by_sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,  # noqa: ARG001 (there is none)
    scale: Scale,
) -> torch.Tensor:
    """Torch's own fused attention."""
    if isinstance(scale, torch.Tensor):
        query, scale = (query * scale).to(key.dtype), 1.0
    added = None if bias is None else bias.to(query.dtype)
    if added is not None and added.dim() == 3:
        added = added.unsqueeze(0)
    return F.scaled_dot_product_attention(query, key, value, added, scale=scale)


def _fastest(call: Call, ways: tuple[Way, ...], runs: tuple[Run, ...]) -> Way:
    """By a few runs of each, forward and, if that is recorded, backward."""
    tensors = [None if each is None else _random(each) for each in call[:6]]
    best, best_ms = ways[0], float("inf")
    for way, run in zip(ways, runs, strict=True):
        try:
            ms = _milliseconds(partial(_step, run, tensors), call.query.device)
        except torch.OutOfMemoryError:
            continue
        if ms < WORTH * best_ms:
            best, best_ms = way, ms
    return best


def _random(given: Given) -> torch.Tensor:
    """A tensor like the one that was given; numbers of the script's generators are not touched."""
    empty = torch.empty_strided(given.shape, given.strides, dtype=given.dtype, device=given.device)
    generator = torch.Generator(given.device).manual_seed(0)
    with torch.no_grad():
        filled = empty if 0 in given.strides else empty.normal_(generator=generator)
    return filled.requires_grad_(given.needs_gradient)


def _step(run: Run, tensors: list[Any]) -> None:
    output = run(*tensors)
    wanted = [each for each in tensors if each is not None and each.requires_grad]
    if output.requires_grad:
        torch.autograd.grad(output, wanted, torch.ones_like(output))


def _milliseconds(run: Callable[[], None], device: torch.device) -> float:
    """The fastest of some runs after a first one."""

    def once() -> float:
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        return 1e3 * (time.perf_counter() - start)

    once()
    return min(once() for _ in range(REPEATS))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
