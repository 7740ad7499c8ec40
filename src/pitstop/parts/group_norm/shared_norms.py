"""GroupNorm with the statistics of the whole picture, so that tiles agree with each other.

A tile's own mean and deviation differ from the picture's: that, and not the missing surroundings,
is what makes tiles differ in tone. Here the norms are watched while a sample of the picture, spread
evenly over it, passes through; then all tiles are normalised by the same numbers. A norm with
known numbers is also the faster one: one read and one write, with SiLU on the way.

Each window of the sample is larger than the block that is measured in it, so that its own border
does not count. The sample may pass in several shares: every share is normalised by all that was
measured so far, and the first passes again at the end.

Instances change their class for the time of one run, as in ``fuse_group_norm``. A subclass of
GroupNorm that rearranges its input and calls ``super().forward`` is shared too (statistics per
frame stay per frame); one that computes the norm in its own way keeps its tiles' own statistics.
Several threads may decode by one model: whom a norm asks belongs to the thread, not to the norm.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts.group_norm.fuse_group_norm import FusedGroupNorm, KernelGroupNorm, Undo
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu
from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES, launch

Maybe = torch.Tensor | None
FIRST_GUESS = 0.01  # pixels: the first share is normalised by itself alone, so it passes twice


@dataclass(frozen=True, slots=True)
class Sample:
    """Windows of one share, stacked along the batch: where in each lies the block to measure."""

    window: tuple[int, int]  # cells: height and width of every window
    block: tuple[int, int]  # cells: height and width of every block
    corners: tuple[tuple[int, int], ...]  # cells: top left corner of the block in its window


class Statistics(NamedTuple):
    """Mean and variance per sample and channel (S, C), of so many pixels."""

    mean: torch.Tensor
    variance: torch.Tensor
    pixels: float


class UnknownNorm(Exception):  # noqa: N818 (no error: how a run that only measures ends)
    """The first norm that is not known yet has been measured."""


class _Then(NamedTuple):
    """What follows a norm: SiLU, after a bias per channel, into a tensor of the norm's shape."""

    silu: bool
    bias: Maybe
    out: Maybe


NOTHING = _Then(False, None, None)
AT_WORK: ContextVar[tuple["SharedNorms", ...]] = ContextVar("at_work", default=())  # innermost last
THEN: ContextVar[_Then] = ContextVar("then", default=NOTHING)  # through a forward that rearranges x
EXCHANGING = Lock()  # two runs may begin or end at once


class SharedNorms:
    """What is known of every norm: measured during ``sample``, used whenever there is none."""

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.one_by_one = False  # whether a run ends behind the first norm that is not known
        self.new: dict[tuple[nn.Module, int], Statistics] = {}  # of that norm
        self.part = 0  # temporal chunk, each with statistics of its own
        self.known: dict[tuple[nn.Module, int], Statistics] = {}
        self.affine: dict[tuple[nn.Module, int], tuple[torch.Tensor, torch.Tensor]] = {}
        self.asked_by: set[nn.Module] = set()

    def count_less(self) -> None:
        """Keep what was measured as a first guess that hardly counts beside what comes."""
        self.known = {key: each._replace(pixels=FIRST_GUESS) for key, each in self.known.items()}

    def settle(self) -> None:
        """What was measured one by one is known from now on."""
        self.known.update(self.new)
        self.new.clear()

    def attach(self, modules: Iterable[nn.Module]) -> Undo:
        """Let every GroupNorm in ``modules`` ask here; call the result in the same thread."""
        norms = [each for each in _parts(modules) if isinstance(each, nn.GroupNorm)]
        if not norms:
            return Undo(())
        self.asked_by.update(norms)
        token = AT_WORK.set((*AT_WORK.get(), self))
        return Undo((*map(_exchange, norms), partial(AT_WORK.reset, token)))

    def _measure(self, key: tuple[nn.Module, int], found: Statistics) -> None:
        if self.one_by_one:
            self.new[key] = _merged(self.new.get(key), found)
            raise UnknownNorm
        self.affine.pop(key, None)
        self.known[key] = _merged(self.known.get(key), found)

    def normalise(self, norm: nn.GroupNorm, x: torch.Tensor, then: _Then) -> torch.Tensor:
        """The norm of ``x`` plus a bias per channel, by shared statistics where there are any."""
        key = (norm, self.part)
        if self.sample is not None and x.dim() > 3 and not (self.one_by_one and key in self.known):
            self._measure(key, _measured(norm, x, then.bias, self.sample))
        if key not in self.known:
            return _by_itself(norm, x, then)
        if key not in self.affine:
            self.affine[key] = _affine(norm, self.known[key], then.bias)
        return scale_shift(x, *self.affine[key], then.silu, then.out)


def take_part(modules: Iterable[nn.Module]) -> Undo:
    """Let every GroupNorm take SiLU and a place for its result, and ask whoever is at work."""
    return Undo(tuple(_exchange(x) for x in _parts(modules) if isinstance(x, nn.GroupNorm)))


def _parts(modules: Iterable[nn.Module]) -> Iterable[nn.Module]:
    return (part for module in modules for part in module.modules())


def _exchange(norm: nn.Module) -> Callable[[], None]:
    """Give a norm the class that asks; the last of the steps returned gives back its own."""
    with EXCHANGING:
        runs = vars(norm).get("_pitstop_runs", 0)
        if runs == 0:
            kind: Any = type(norm)
            norm.__class__ = _shared_class(kind)
        vars(norm)["_pitstop_runs"] = runs + 1
    return partial(_give_back, norm)


def _give_back(norm: Any) -> None:
    with EXCHANGING:
        runs = vars(norm).pop("_pitstop_runs") - 1
        if runs:
            vars(norm)["_pitstop_runs"] = runs
        else:
            norm.__class__ = norm.own


def _by_itself(norm: nn.GroupNorm, x: torch.Tensor, then: _Then) -> torch.Tensor:
    y = group_norm_silu(
        *(x, norm.num_groups, norm.weight, norm.bias, norm.eps),
        silu=then.silu,
        channel_bias=then.bias,
    )
    return y if then.out is None else then.out.copy_(y)


class _Shared(KernelGroupNorm):  # before which it comes where a norm is both
    """A GroupNorm that asks ``SharedNorms``."""

    own: type[nn.Module] = nn.GroupNorm  # its class, when nobody runs

    def forward(self, input: torch.Tensor) -> Any:  # noqa: A002 (torch's name)
        for norms in reversed(AT_WORK.get()):
            if self in norms.asked_by:
                return norms.normalise(self, input, THEN.get())
        return _by_itself(self, input, THEN.get())

    def with_silu(self, x: torch.Tensor, channel_bias: Maybe = None, out: Maybe = None) -> Any:
        token = THEN.set(_Then(True, channel_bias, out))
        try:
            return self.forward(x)
        finally:
            THEN.reset(token)


@lru_cache(maxsize=256)
def _shared_class(kind: Any) -> Any:
    plain = kind.forward in (nn.GroupNorm.forward, FusedGroupNorm.forward)
    parents = (_Shared, kind) if plain else (kind, _Shared)
    if kind is nn.GroupNorm:
        return _Shared
    return type(kind.__name__, parents, {"__module__": kind.__module__, "own": kind})


def _measured(norm: nn.GroupNorm, x: torch.Tensor, bias: Maybe, sample: Sample) -> Statistics:
    """Statistics of the blocks alone, over all windows together."""
    windows = len(sample.corners)
    pixels = x.unflatten(0, (windows, -1)).movedim((-2, -1), (1, 2))  # (windows, H, W, S, C, ...)
    places = zip(pixels, _places(sample, *x.shape[-2:]), strict=True)
    blocks = [window[rows, columns] for window, (rows, columns) in places]
    together = torch.stack(blocks).flatten(0, 2) if windows > 1 else blocks[0].flatten(0, 1)
    return _statistics(together.movedim(0, -1).flatten(2), norm.num_groups, norm.eps, bias)


@lru_cache(maxsize=64)
def _places(sample: Sample, height: int, width: int) -> list[tuple[slice, slice]]:
    """Rows and columns of every block at one resolution.

    A window may have pixels beyond its last cell; a block alone takes them if it ends there.
    """
    zoom = min(height // sample.window[0], width // sample.window[1])
    alone = len(sample.corners) == 1

    def stretch(start: int, side: int, whole: int) -> slice:
        to_the_end = alone and start + side == whole
        return slice(start * zoom, None if to_the_end else (start + side) * zoom)

    return [
        (
            stretch(top, sample.block[0], sample.window[0]),
            stretch(left, sample.block[1], sample.window[1]),
        )
        for top, left in sample.corners
    ]


def _statistics(x: torch.Tensor, groups: int, eps: float, bias: Maybe) -> Statistics:
    if _kernel_runs(x):
        from pitstop.parts.group_norm.launch import statistics_of  # noqa: PLC0415 (needs triton)

        centre, scale = statistics_of(x, bias, groups, eps)
        return Statistics(
            centre if bias is None else centre + bias.float(), scale**-2 - eps, x.shape[-1]
        )
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    if bias is not None:
        exact = exact + bias.view(1, -1, *[1] * (x.dim() - 2))
    variance, mean = torch.var_mean(exact.reshape(x.shape[0], groups, -1), -1, correction=0)
    mean, variance = (each.repeat_interleave(x.shape[1] // groups, 1) for each in (mean, variance))
    return Statistics(mean, variance, x.shape[-1])


def _kernel_runs(x: torch.Tensor) -> bool:
    return HAS_TRITON and x.is_cuda and x.dtype in KERNEL_TYPES


def _merged(old: Statistics | None, new: Statistics) -> Statistics:
    """Statistics of everything, what was before and the new."""
    if old is None:
        return new
    pixels = old.pixels + new.pixels
    share = new.pixels / pixels
    distance = new.mean - old.mean
    variance = torch.lerp(old.variance, new.variance, share)
    return Statistics(
        old.mean + distance * share, variance + distance.square() * share * (1 - share), pixels
    )


def _affine(
    norm: nn.GroupNorm, known: Statistics, bias: Maybe
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gain and offset (S, C) that do what norm, weight and both biases would."""
    gain = (known.variance + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = gain * norm.weight
    centre = known.mean if bias is None else known.mean - bias
    offset = -centre * gain
    if norm.bias is not None:
        offset = offset + norm.bias
    return gain.contiguous(), offset.contiguous()


def scale_shift(
    x: torch.Tensor, gain: torch.Tensor, offset: torch.Tensor, silu: bool, out: Maybe = None
) -> torch.Tensor:
    """Compute ``x * gain + offset`` per sample and channel, then SiLU, in fp32, rounded once.

    ``gain`` and ``offset`` are (S, C); x's samples take them in turn, as often as it takes.
    """
    if not _kernel_runs(x) or x.numel() == 0:
        y = scale_shift_twin(x, gain, offset, silu)
        return y if out is None else out.copy_(y)
    from pitstop.parts.group_norm import shared_kernels  # noqa: PLC0415 (needs triton)
    from pitstop.parts.group_norm.launch import plan  # noqa: PLC0415
    from pitstop.parts.layout import strides_of  # noqa: PLC0415

    y = torch.empty_like(x) if out is None else out
    strides = strides_of(x)
    if strides is None or y.stride() != x.stride():  # a cut out of something larger
        y = scale_shift(x.contiguous(), gain, offset, silu)
        return y if out is None else out.copy_(y)
    grid = plan(tuple(x.shape), strides, x.shape[1], x.device)
    repeats = gain.shape[0]
    key = (grid, x.dtype, repeats, silu)
    launch(
        *(shared_kernels.affine_kernel, grid.programs, grid.warps, key, (x, gain, offset, y)),
        *(grid.channels, grid.length, grid.chunk, repeats),
        *(*strides, silu, grid.block_s, grid.block_c),
    )
    return y


def scale_shift_twin(
    x: torch.Tensor, gain: torch.Tensor, offset: torch.Tensor, silu: bool
) -> torch.Tensor:
    """Compute the same in plain PyTorch."""
    shape = (x.shape[0], x.shape[1], *[1] * (x.dim() - 2))
    times = x.shape[0] // gain.shape[0]
    factor, moved = (each.repeat(times, 1).view(shape) for each in (gain, offset))
    y = (x * factor).add_(moved)  # the gain's fp32 makes the product fp32
    return (F.silu(y, inplace=True) if silu else y).to(x.dtype)
