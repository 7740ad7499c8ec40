"""GroupNorm with SiLU, residual and scale-shift in two passes over the data.

Why it is slow in plain PyTorch: at batch 1, ``native_group_norm`` gives each of the 32 groups to
one thread block, so 32 of an H200's 132 multiprocessors work, and SiLU is one more read and write.
In channels-last it is slower still. A VAE decoder spends more than half of its time there.

What is fused: a first kernel takes the statistics, split over the whole chip, as means and squared
deviations of chunks; a tiny second one merges them (Chan's formula, no E[x^2] - E[x]^2); a third
normalises, scales, shifts, applies SiLU, adds the residual and rounds once. The backward has the
same shape: sums, merge, apply. A convolution's bias can be passed as ``channel_bias``: it moves
the mean of a channel and nothing else, so it is folded into the merge and costs no pass.

Layout: N x C x anything, channels-first or channels-last, 1-D to 3-D; the result has the layout of
``x``. bf16, fp16, fp32 with fp32 statistics. fp64, CPU tensors and machines without Triton take
the twin.

Floor: one read and one write are 2 passes; the statistics make it 3, so 1.5 times the floor is
what a two-pass scheme can reach. On an H200 (4.3 TB/s), bf16, the floor is 0.031 ms at 512 channels
of 256 x 256, 0.062 at 256 of 512 x 512, 0.125 at 128 of 1024 x 1024: the sizes it was tuned for.

Determinism: bitwise reproducible, no atomics. Not supported: double backward through the kernels.
"""

import importlib
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES

Maybe = torch.Tensor | None


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
    _check(x, num_groups, weight, bias, residual, scale, shift, channel_bias)
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
    arguments = (x, weight, bias, residual, channel_bias, num_groups, eps, silu)
    if torch.compiler.is_compiling():
        return torch.ops.pitstop.group_norm_silu(*arguments)[0]  # type: ignore[no-any-return]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in arguments[:5]):
        result: torch.Tensor = _FunctionGroupNorm.apply(*arguments)  # type: ignore[no-untyped-call]
        return result
    return _forward(*arguments)[0]


def group_norm_silu_twin(  # noqa: PLR0913 (as above)
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
    """Compute the same in plain PyTorch: in fp32, or fp64 for fp64, rounded once at the end."""
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    per_channel = (*x.shape[:2], *[1] * (x.dim() - 2))
    y = x.to(exact)
    if channel_bias is not None:
        y = y + channel_bias.to(exact).view(1, *per_channel[1:])
    weight, bias = (None if each is None else each.to(exact) for each in (weight, bias))
    y = F.group_norm(y, num_groups, weight, bias, eps)
    if scale is not None:
        y = y * (1 + scale.to(exact).view(per_channel))
    if shift is not None:
        y = y + shift.to(exact).view(per_channel)
    if silu:
        y = F.silu(y)
    if residual is not None:
        y = y + residual
    return y.to(x.dtype)


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
        offset = moved if offset is None else offset + moved
    return gain if weight is None else gain * weight, offset


def _laid_out_like(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``other`` with the strides of ``x``, which the kernels address both by."""
    if other.stride() == x.stride():
        return other
    return torch.empty_like(x, dtype=other.dtype).copy_(other)


def _planned(x: torch.Tensor, groups: int) -> tuple[torch.Tensor, Any]:
    """``x`` in a layout that the kernels can walk, copied where needed, and how it is cut up."""
    launching = _launching()
    strides = launching.strides_of(x)
    if strides is None or not (x.is_contiguous() or _is_dense(x)):
        x = x.contiguous()
        strides = launching.strides_of(x)
    return x, launching.plan(x.shape, strides, groups, x.device)


@cache
def _launching() -> Any:
    """The module that needs Triton, imported when a kernel first runs."""
    return importlib.import_module("pitstop.parts.group_norm_launch")


def _is_dense(x: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps, in whatever order of dimensions."""
    expected = 1
    for step, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if step != expected:
                return False
            expected *= size
    return True


def _forward(
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.numel() == 0:
        return torch.empty_like(x), x.new_empty((2, *x.shape[:2]), dtype=torch.float32)
    x, grid = _planned(x, groups)
    residual = None if residual is None else _laid_out_like(x, residual)
    answer: tuple[torch.Tensor, torch.Tensor] = _launching().forward(
        x, grid, groups, (weight, bias), (residual, channel_bias), (eps, silu)
    )
    return answer


def _backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    statistics: torch.Tensor,
    groups: int,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of x, weight and bias; the last two as (N, C) or (C,), like the affine."""
    if x.numel() == 0:
        empty = x.new_zeros((2, *x.shape[:2]), dtype=torch.float32)
        grads = (torch.empty_like(x), empty[0], empty[1])
    else:
        x, grid = _planned(x, groups)
        grad = _laid_out_like(x, grad)
        grads = _launching().backward(grad, x, grid, groups, (weight, bias), statistics, silu)
    if weight is not None and weight.dim() > 1:
        return grads
    if x.shape[0] == 1:
        return grads[0], grads[1].view(-1), grads[2].view(-1)
    return grads[0], grads[1].sum(0), grads[2].sum(0)


def _finish(ctx: Any, grad: torch.Tensor, grads: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
    """Arrange gradients as autograd wants them, in the order of ``_forward``'s arguments."""
    _, needs_weight, needs_bias, needs_residual, needs_channel_bias, *_ = ctx.needs_input_grad
    x, weight, bias, _statistics, channel_bias = ctx.saved_tensors
    to_channel_bias = None
    if needs_channel_bias:
        others = [axis for axis in range(x.dim()) if axis != 1]
        to_channel_bias = grads[0].sum(others, dtype=torch.float32).to(channel_bias.dtype)
    return (
        grads[0],
        grads[1].to(weight.dtype) if needs_weight else None,  # a no-op for one sample
        grads[2].to(bias.dtype) if needs_bias else None,
        grad if needs_residual else None,
        to_channel_bias,
        *[None] * 3,
    )


class _FunctionGroupNorm(torch.autograd.Function):
    """The eager path: half the CPU cost of the registered operator."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        output = _forward(*arguments)
        _remember(ctx, arguments, output)
        return output[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        x, weight, bias, statistics, _ = ctx.saved_tensors
        grads = _backward(grad, x, weight, bias, statistics, *ctx.settings)
        return _finish(ctx, grad, grads)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, weight, bias, _, channel_bias, groups, _, silu = inputs
    ctx.save_for_backward(x, weight, bias, output[1], channel_bias)
    ctx.settings = (groups, silu)


@torch.library.custom_op("pitstop::group_norm_silu", mutates_args=())
def _operator(
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The path under ``torch.compile``: one opaque operator, no graph break."""
    return _forward(x, weight, bias, residual, channel_bias, groups, eps, silu)


@_operator.register_fake
def _(x: torch.Tensor, *_rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), x.new_empty((2, *x.shape[:2]), dtype=torch.float32)


@torch.library.custom_op("pitstop::group_norm_silu_backward", mutates_args=())
def _backward_operator(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    statistics: torch.Tensor,
    groups: int,
    silu: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _backward(grad, x, weight, bias, statistics, groups, silu)


@_backward_operator.register_fake
def _(
    grad: torch.Tensor,  # noqa: ARG001 (the operator's schema)
    x: torch.Tensor,
    weight: Maybe,
    *_rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = x.shape[:2] if weight is not None and weight.dim() > 1 else x.shape[1:2]
    final = x.shape[0] == 1 and weight is not None
    dtype = weight.dtype if final and weight is not None else torch.float32
    return torch.empty_like(x), x.new_empty(shape, dtype=dtype), x.new_empty(shape, dtype=dtype)


def _operator_backward(ctx: Any, grad: torch.Tensor, _grad_statistics: Any) -> tuple[Any, ...]:
    x, weight, bias, statistics, _ = ctx.saved_tensors
    grads = _backward_operator(grad, x, weight, bias, statistics, *ctx.settings)
    return _finish(ctx, grad, grads)


_operator.register_autograd(_operator_backward, setup_context=_remember)


def _kernel_runs(x: torch.Tensor) -> bool:
    return HAS_TRITON and x.is_cuda and x.dtype in KERNEL_TYPES


def _check(
    x: torch.Tensor, groups: int, weight: Maybe, bias: Maybe, residual: Maybe, *vectors: Maybe
) -> None:
    """Raise one error that names the wrong argument and what would be right."""
    if x.dim() < 2 or not x.is_floating_point():
        raise ValueError(f"x is {tuple(x.shape)} of {x.dtype}: pass N x C x ... floating point")
    samples, channels = x.shape[:2]
    if groups < 1 or channels % groups:
        raise ValueError(f"num_groups is {groups}: pass a divisor of x's {channels} channels")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"residual is {tuple(residual.shape)}: pass x's shape {tuple(x.shape)}")
    names = ("weight", "bias", "residual", "scale", "shift", "channel_bias")
    per_sample = samples * channels
    sizes = (channels, channels, x.numel(), per_sample, per_sample, channels)
    for name, tensor, size in zip(names, (weight, bias, residual, *vectors), sizes, strict=True):
        if tensor is None:
            continue
        if tensor.numel() != size:
            raise ValueError(f"{name} holds {tensor.numel()} values: pass {size} for this x")
        if tensor.device != x.device:
            raise ValueError(f"{name} is on {tensor.device}, x on {x.device}: use one device")
