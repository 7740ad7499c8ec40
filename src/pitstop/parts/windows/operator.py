"""The kernel as autograd and ``torch.compile`` see it.

Eager code takes an ``autograd.Function``, half the CPU time of a registered operator;
``torch.compile`` takes the operator, which it does not look into: no graph break.
"""

import importlib
from functools import cache
from typing import Any

import torch

from pitstop.parts.record import recorded, twice_differentiable
from pitstop.parts.windows.twin import window_attention_twin

Maybe = torch.Tensor | None


def by_kernel(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,
    scale: float | torch.Tensor | None,
) -> torch.Tensor:
    """Compute ``window_attention`` by the kernel, in the type that autocast asks for."""
    query, key, value = _cast(query, key, value)
    if isinstance(scale, torch.Tensor):
        query, scale = (query * scale).to(key.dtype), 1.0
    if bias is not None:
        shape = (query.shape[1], query.shape[2], key.shape[2])
        bias = bias.view(bias.shape[-3:]).expand(shape).contiguous()
    masked = None if mask is None else mask.any(dim=(1, 2))  # which positions it says anything of
    number = query.shape[-1] ** -0.5 if scale is None else scale
    arguments = (query, key, value, bias, mask, masked, number)
    if torch.compiler.is_compiling():
        result: torch.Tensor = _operator(*arguments)[0]
    elif torch.is_grad_enabled() and _wants_gradient(query, key, value, bias):
        result = recorded(_Function, *arguments)
    else:
        result = _launching().forward(*arguments)[0]
    return result


def _cast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple([each.to(dtype) for each in tensors])


def _wants_gradient(*tensors: Maybe) -> bool:
    return any(each is not None and each.requires_grad for each in tensors)


@cache
def _launching() -> Any:
    """The module that needs Triton, imported when a kernel first runs."""
    return importlib.import_module("pitstop.parts.windows.launch")


class _Function(torch.autograd.Function):
    """The eager path."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:
        output = _launching().forward(*inputs)
        _remember(ctx, inputs, output)
        result: torch.Tensor = output[0]
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            inputs = query, key, value, bias, mask = ctx.saved_tensors[:5]
            output = window_attention_twin(query, key, value, bias, mask, ctx.scale)
            return (*twice_differentiable(output, inputs, needs[:5], grad), None, None)
        *tensors, output, sums = ctx.saved_tensors
        grads = _launching().backward(grad, *tensors, output, sums, ctx.scale, needs[3])
        return _arranged(grads, needs)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)


def _arranged(grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
    """A gradient for each input that needs one."""
    given = zip(grads, needs, strict=False)
    return (*[each if need else None for each, need in given], None, None, None)


@torch.library.custom_op("pitstop::window_attention", mutates_args=())
def _operator(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    mask: Maybe,
    masked: Maybe,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The path under ``torch.compile``: the result, and what the backward pass needs."""
    output, sums = _launching().forward(query, key, value, bias, mask, masked, scale)
    return output, sums


@_operator.register_fake
def _(query: torch.Tensor, *_rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _beside(query), query.new_empty(query.shape[:3], dtype=torch.float32)


def _beside(tensor: torch.Tensor) -> torch.Tensor:
    """An empty one laid out as the kernel lays out results: heads beside each other."""
    windows, heads, tokens, width = tensor.shape
    return tensor.new_empty((windows, tokens, heads, width)).transpose(1, 2)


@torch.library.custom_op("pitstop::window_attention_backward", mutates_args=())
def _backward_operator(  # noqa: PLR0913, PLR0917 (all that was kept)
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    *grads, to_bias = _launching().backward(
        grad, query, key, value, bias, mask, masked, output, sums, scale, needs_bias
    )
    return (*grads, query.new_empty(0) if to_bias is None else to_bias)


@_backward_operator.register_fake
def _(
    grad: torch.Tensor,  # noqa: ARG001 (the operator's schema)
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: Maybe,
    *rest: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    to_bias = query.new_empty(0) if bias is None or not rest[-1] else torch.empty_like(bias)
    return _beside(query), _beside(key), _beside(value), to_bias


def _operator_backward(ctx: Any, grad: torch.Tensor, _grad_sums: Any) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad
    grads = _backward_operator(grad, *ctx.saved_tensors, ctx.scale, needs[3])
    return _arranged(grads, needs)


_operator.register_autograd(_operator_backward, setup_context=_remember)
