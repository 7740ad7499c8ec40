"""GroupNorm with SiLU, residual and scale-shift in two passes over the data.

Why it is slow in plain PyTorch: at batch 1, ``native_group_norm`` gives each of the 32 groups to
one thread block, so 32 of an H200's 132 multiprocessors work, and SiLU is one more read and write.
In channels-last it is slower still. A VAE decoder spends more than half of its time there.

What is fused: a first kernel takes the statistics, split over the whole chip, as means and squared
deviations of chunks; a tiny second one merges them (Chan's formula, no E[x^2] - E[x]^2); a third
normalises, scales, shifts, applies SiLU, adds the residual and rounds once. The backward has the
same shape: sums, merge, apply. Small groups take one launch, a program each (``whole``):
there the CPU's time counts, not the chip's; what is small and learns is left to PyTorch. A
convolution's bias can be passed as ``channel_bias``: it moves the mean of a channel and nothing
else, so it is folded into the statistics and costs no pass.

Layout: N x C x anything, channels-first or channels-last, 1-D to 3-D; the result has the layout of
``x``. bf16, fp16, fp32 with fp32 statistics. fp64, CPU tensors and machines without Triton take
the twin.

Floor: one read and one write are 2 passes; the statistics make it 3, so 1.5 times the floor is
what a two-pass scheme can reach. On an H200 (4.3 TB/s), bf16, the floor is 0.031 ms at 512 channels
of 256 x 256, 0.062 at 256 of 512 x 512, 0.125 at 128 of 1024 x 1024: the sizes it was tuned for.

Determinism: bitwise reproducible, no atomics. Second derivatives and ``torch.func`` take the twin.
"""

from functools import lru_cache
from math import prod

import torch

from pitstop.parts.group_norm.operator import normalise
from pitstop.parts.group_norm.twin import group_norm_silu_twin
from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES, SIGNATURES

__all__ = ["group_norm_silu", "group_norm_silu_twin"]

Maybe = torch.Tensor | None
Place = tuple[torch.Size, torch.device]
NAMES = ("weight", "bias", "residual", "scale", "shift", "channel_bias")


def group_norm_silu(  # noqa: PLR0913 (the arguments of F.group_norm and what follows a norm)
    x: torch.Tensor,
    num_groups: int,
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    *,
    silu: bool = True,
    residual: Maybe = None,
    scale: Maybe = None,
    shift: Maybe = None,
    channel_bias: Maybe = None,
) -> torch.Tensor:
    """Compute ``silu(group_norm(x + channel_bias) * (1 + scale) + shift) + residual``.

    ``x`` is (N, C, ...); ``weight``, ``bias`` and ``channel_bias`` hold C values, ``scale`` and
    ``shift`` N x C, ``residual`` has the shape of ``x``. All but ``x`` may be missing.
    """
    others = (weight, bias, residual, scale, shift, channel_bias)
    check = _check if torch.compiler.is_compiling() else _check_once
    check(x.shape, x.dtype, x.device, num_groups, tuple([_place(each) for each in others]))
    weight, bias, channel_bias = _vector(weight), _vector(bias), _vector(channel_bias)
    if not _kernel_runs(x):
        return group_norm_silu_twin(
            *(x, num_groups, weight, bias, eps),
            silu=silu,
            residual=residual,
            scale=scale,
            shift=shift,
            channel_bias=channel_bias,
        )
    if scale is not None or shift is not None:
        weight, bias = _fold(x, weight, bias, scale, shift)
    return normalise(x, weight, bias, residual, channel_bias, num_groups, eps, silu)


def _vector(values: Maybe) -> Maybe:
    """One value after another, which the kernels rely on."""
    if values is None or (values.dim() == 1 and values.is_contiguous()):
        return values
    return values.reshape(-1).contiguous()


def _fold(
    x: torch.Tensor, weight: Maybe, bias: Maybe, scale: Maybe, shift: Maybe
) -> tuple[torch.Tensor, Maybe]:
    """Weight and bias per sample (N, C) that do what ``scale`` and ``shift`` would after them."""
    shape = x.shape[:2]
    gain = x.new_ones(shape, dtype=torch.float32)
    if scale is not None:
        gain = gain + scale.reshape(shape)
    offset = None if bias is None else (gain * bias)
    if shift is not None:
        moved = shift.reshape(shape).float()
        offset = moved.contiguous() if offset is None else offset + moved
    return gain if weight is None else gain * weight, offset


def _kernel_runs(x: torch.Tensor) -> bool:
    return HAS_TRITON and x.is_cuda and x.dtype in KERNEL_TYPES


def _place(tensor: Maybe) -> Place | None:
    return None if tensor is None else (tensor.shape, tensor.device)


def _check(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    groups: int,
    others: tuple[Place | None, ...],
) -> None:
    """Raise one error that names the wrong argument and what would be right."""
    if len(shape) < 2 or not dtype.is_floating_point:
        raise ValueError(f"x is {tuple(shape)} of {dtype}: pass N x C x ... floating point")
    samples, channels = shape[:2]
    if groups < 1 or channels % groups:
        raise ValueError(f"num_groups is {groups}: pass a divisor of x's {channels} channels")
    for name, other in zip(NAMES, others, strict=True):
        if other is None:
            continue
        its_shape, its_device = other
        values = samples * channels if name in ("scale", "shift") else channels
        if its_device != device:
            raise ValueError(f"{name} is on {its_device}, x on {device}: use one device")
        if name == "residual":
            if its_shape != shape:
                raise ValueError(f"residual is {tuple(its_shape)}: pass x's {tuple(shape)}")
        elif prod(its_shape) != values:
            raise ValueError(f"{name} holds {prod(its_shape)} values: pass {values} for this x")


_check_once = lru_cache(maxsize=SIGNATURES)(_check)  # a signature is checked when it is first seen
