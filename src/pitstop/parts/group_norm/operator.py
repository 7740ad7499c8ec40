"""GroupNorm + SiLU by the kernels, as autograd and as ``torch.compile`` see it.

Eager code takes an ``autograd.Function``, half the CPU time of a registered operator;
``torch.compile`` takes the operator, which it does not look into: no graph break.
"""

import importlib
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from pitstop.parts.group_norm.twin import group_norm_silu_twin
from pitstop.parts.layout import like
from pitstop.parts.record import is_transformed, recorded, twice_differentiable

Maybe = torch.Tensor | None
# Elements. An autograd function costs some 40 us of CPU; PyTorch's own two operations take as long
# on the GPU at 2 TB/s and 12 bytes an element. By arithmetic; benchmarks/launch_cost.py measures.
RECORDING_PAYS = 1 << 22


def normalise(
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
) -> torch.Tensor:
    """Compute ``group_norm_silu`` by the kernels; weight and bias are (C,), or both (N, C)."""
    arguments = (x, weight, bias, residual, channel_bias, groups, eps, silu)
    if torch.compiler.is_compiling():
        answer: torch.Tensor = _operator(*arguments)[0]
    elif is_transformed():
        answer = _twin(*arguments)
    elif torch.is_grad_enabled() and _wants_gradient(arguments[:5]):
        stock = x.numel() < RECORDING_PAYS and _is_stock(*arguments[:5])
        answer = _stock(*arguments) if stock else recorded(_FunctionGroupNorm, *arguments)
    else:
        answer = _launching().forward(*arguments, False)[0]  # nobody asks for the statistics
    return answer


def _wants_gradient(tensors: tuple[Maybe, ...]) -> bool:
    return True in [each is not None and each.requires_grad for each in tensors]


def _is_stock(x: torch.Tensor, *others: Maybe) -> bool:
    """Whether PyTorch's own operations give the same type and layout, and are launched for it."""
    if not x.is_contiguous() or torch.is_autocast_enabled(x.device.type):
        return False
    if any(each is not None and (each.dtype != x.dtype) for each in others):
        return False
    weight = others[0]
    if weight is not None and weight.dim() > 1:
        return False
    return not (x.is_cuda and torch.cuda.is_current_stream_capturing())  # replays cost no CPU


def _stock(
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
) -> torch.Tensor:
    """The same by PyTorch's own operations, which autograd records in less time."""
    if channel_bias is not None:
        x = x + channel_bias.view(1, -1, *[1] * (x.dim() - 2))
    y = F.group_norm(x, groups, weight, bias, eps)
    y = F.silu(y) if silu else y
    return y if residual is None else y + residual


def _twin(
    x: torch.Tensor,
    weight: Maybe,
    bias: Maybe,
    residual: Maybe,
    channel_bias: Maybe,
    groups: int,
    eps: float,
    silu: bool,
) -> torch.Tensor:
    """``normalise`` in plain PyTorch."""
    more: dict[str, Any] = {"silu": silu, "residual": residual, "channel_bias": channel_bias}
    if weight is None or weight.dim() == 1:
        return group_norm_silu_twin(x, groups, weight, bias, eps, **more)
    return group_norm_silu_twin(x, groups, eps=eps, scale=weight - 1, shift=bias, **more)


@cache
def _launching() -> Any:
    """The module that needs Triton, imported when a kernel first runs."""
    return importlib.import_module("pitstop.parts.group_norm.launch")


class _FunctionGroupNorm(torch.autograd.Function):
    """The eager path."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        output: tuple[torch.Tensor, torch.Tensor] = _launching().forward(*arguments)
        _remember(ctx, arguments, output)
        return output[0]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            return _twin_backward(ctx, grad, saved)
        x, weight, bias, _, statistics = saved
        groups, _, silu = ctx.settings
        grads = _launching().backward(grad, x, weight, bias, statistics, groups, silu)
        return _arranged(ctx, grad, saved, grads)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, weight, bias, _, channel_bias, *settings = inputs
    ctx.save_for_backward(x, weight, bias, channel_bias, output[1])
    ctx.settings = settings


def _arranged(ctx: Any, grad: torch.Tensor, saved: Any, grads: Any) -> tuple[Any, ...]:
    """Gradients in the order of ``normalise``'s arguments."""
    x, weight, bias, channel_bias, _ = saved
    _, needs_weight, needs_bias, needs_residual, needs_channel_bias, *_ = ctx.needs_input_grad
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


def _twin_backward(ctx: Any, grad: torch.Tensor, saved: Any) -> tuple[Any, ...]:
    """The same gradients through the twin, which can be differentiated again."""
    x, weight, bias, channel_bias, _ = saved
    y = _twin(x, weight, bias, None, channel_bias, *ctx.settings)
    inputs = (x, weight, bias, y, channel_bias, *[None] * 3)  # a residual's gradient is y's
    return twice_differentiable(y, inputs, ctx.needs_input_grad, grad)


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
    """The path under ``torch.compile``."""
    answer: tuple[torch.Tensor, torch.Tensor] = _launching().forward(
        x, weight, bias, residual, channel_bias, groups, eps, silu
    )
    return answer


@_operator.register_fake
def _(x: torch.Tensor, *_rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return like(x), x.new_empty((2, *x.shape[:2]), dtype=torch.float32)


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
    answer: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _launching().backward(
        grad, x, weight, bias, statistics, groups, silu
    )
    return answer


@_backward_operator.register_fake
def _(
    grad: torch.Tensor,  # noqa: ARG001 (the operator's schema)
    x: torch.Tensor,
    weight: Maybe,
    *_rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = x.shape[:2] if weight is not None and weight.dim() > 1 else x.shape[1:2]
    dtype = torch.float32 if weight is None or x.shape[0] > 1 else weight.dtype
    return like(x), x.new_empty(shape, dtype=dtype), x.new_empty(shape, dtype=dtype)


def _operator_backward(ctx: Any, grad: torch.Tensor, _grad_statistics: Any) -> tuple[Any, ...]:
    saved = ctx.saved_tensors
    x, weight, bias, _, statistics = saved
    groups, _, silu = ctx.settings
    grads = _backward_operator(grad, x, weight, bias, statistics, groups, silu)
    return _arranged(ctx, grad, saved, grads)


_operator.register_autograd(_operator_backward, setup_context=_remember)
