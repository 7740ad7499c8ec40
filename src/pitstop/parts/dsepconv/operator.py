"""``dsepconv`` as autograd and ``torch.compile`` see it; the package has the essay."""

import importlib
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import torch

from pitstop.parts.dsepconv.twin import dsepconv_twin, image_gradient, twin_backward
from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES, SIGNATURES, index_of
from pitstop.parts.record import is_transformed, recorded, twice_differentiable

NAMES = ("image", "vertical", "horizontal", "offset_x", "offset_y", "mask")
Tensors = tuple[torch.Tensor, ...]
Shapes = tuple[torch.Size, ...]
Types = tuple[torch.dtype, ...]
Devices = tuple[torch.device, ...]
Signature = tuple[Shapes, Types, Devices]


def dsepconv(
    image: torch.Tensor,
    vertical: torch.Tensor,
    horizontal: torch.Tensor,
    offset_x: torch.Tensor,
    offset_y: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Filter ``image`` (N, C, H + F - 1, W + F - 1) with per-pixel kernels into (N, C, H, W).

    ``vertical`` and ``horizontal`` are (N, F, H, W); the offsets and ``mask`` (N, F * F, H, W).
    """
    inputs = (image, vertical, horizontal, offset_x, offset_y, mask)
    if torch.compiler.is_compiling() or is_transformed():
        return _traced(inputs)
    if torch.is_grad_enabled() and (
        vertical.requires_grad
        or image.requires_grad
        or horizontal.requires_grad
        or offset_x.requires_grad
        or offset_y.requires_grad
        or mask.requires_grad
    ):
        result: torch.Tensor = recorded(_FunctionDSepconv, *inputs)
        return result
    return _forward(inputs)


def _signature(inputs: Tensors) -> Signature:
    """All that decides whether a call is right and how the kernel is launched."""
    return (
        tuple([each.shape for each in inputs]),
        tuple([each.dtype for each in inputs]),
        tuple([each.device for each in inputs]),
    )


def _forward(inputs: Tensors) -> torch.Tensor:
    shape, launch = _plan(*_signature(inputs))
    if launch is None:
        with torch.no_grad():
            return dsepconv_twin(*inputs)
    output = inputs[0].new_empty(shape)
    launch(*[each if each.is_contiguous() else each.contiguous() for each in inputs], output)
    return output


@lru_cache(maxsize=SIGNATURES)
def _plan(shapes: Shapes, types: Types, devices: Devices) -> tuple[tuple[int, ...], Any]:
    """The shape of the result, and the launch that fills it; None for the twin to do it.

    A signature is checked once, the first time it is seen.
    """
    _check(shapes, types, devices)
    shape = (*shapes[0][:2], *shapes[1][2:])
    if 0 in shape or not _kernel_runs(devices[0], types):
        return shape, None
    return shape, _kernels().forward_launch(shapes[0], shapes[1], index_of(devices[0]))


def _backward(grad: torch.Tensor, inputs: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Gradients of those inputs that need one, None for the others."""
    image, device = inputs[0], inputs[0].device
    types = tuple([each.dtype for each in inputs])
    if grad.numel() == 0 or not _kernel_runs(device, types):
        return twin_backward(grad, inputs, needs)
    dense = [each if each.is_contiguous() else each.contiguous() for each in (grad, *inputs)]
    by_kernel = needs[0] and not torch.are_deterministic_algorithms_enabled(), any(needs[1:])
    grads: list[Any] = [None] * 6
    if by_kernel[0]:
        grads[0] = torch.zeros_like(dense[1], dtype=torch.float32)
    if by_kernel[1]:
        grads[1:] = [torch.empty_like(each) for each in dense[2:]]
    if any(by_kernel):
        launch = _kernels().backward_launch(
            *(image.shape, inputs[1].shape, index_of(device), by_kernel, (grad.dtype, *types))
        )
        launch(*dense, *[grad if each is None else each for each in grads])  # unread where None
    if by_kernel[0]:
        grads[0] = grads[0].to(types[0])
    elif needs[0]:
        grads[0] = image_gradient(grad, inputs)
    return [each if need else None for each, need in zip(grads, needs, strict=True)]


@cache
def _kernels() -> Any:
    """The module that needs Triton, imported when a kernel first runs."""
    return importlib.import_module("pitstop.parts.dsepconv.kernels")


def _kernel_runs(device: torch.device, types: Sequence[torch.dtype]) -> bool:
    return HAS_TRITON and device.type == "cuda" and KERNEL_TYPES.issuperset(types)


class _FunctionDSepconv(torch.autograd.Function):
    """The eager path: half the CPU cost of the registered operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return _forward(inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        inputs, needs = ctx.saved_tensors, ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True: a second derivative may follow
            return twice_differentiable(dsepconv_twin(*inputs), inputs, needs, grad)
        return tuple(_backward(grad, inputs, needs))


@torch.library.custom_op("pitstop::dsepconv", mutates_args=())
def _operator(
    image: torch.Tensor,
    vertical: torch.Tensor,
    horizontal: torch.Tensor,
    offset_x: torch.Tensor,
    offset_y: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """The path under ``torch.compile``: one opaque operator, no graph break."""
    return _forward((image, vertical, horizontal, offset_x, offset_y, mask))


@_operator.register_fake
def _(image: torch.Tensor, vertical: torch.Tensor, *_rest: torch.Tensor) -> torch.Tensor:
    return image.new_empty(image.shape[:2] + vertical.shape[2:])


BACKWARD = "(Tensor grad, Tensor[] inputs, bool[] needs) -> Tensor[]"  # torch 2.6 cannot infer it


@torch.library.custom_op("pitstop::dsepconv_backward", mutates_args=(), schema=BACKWARD)
def _backward_operator(
    grad: torch.Tensor, inputs: list[torch.Tensor], needs: list[bool]
) -> list[torch.Tensor]:
    grads = _backward(grad, tuple(inputs), needs)
    return [grad.new_empty(0) if each is None else each for each in grads]


@_backward_operator.register_fake
def _(grad: torch.Tensor, inputs: list[torch.Tensor], needs: list[bool]) -> list[torch.Tensor]:
    return [
        each.new_empty(each.shape) if need else grad.new_empty(0)
        for each, need in zip(inputs, needs, strict=True)
    ]


def _setup_context(ctx: Any, inputs: Tensors, output: torch.Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _operator_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    needs = list(ctx.needs_input_grad)
    grads = _backward_operator(grad, list(ctx.saved_tensors), needs)
    return tuple(each if need else None for each, need in zip(grads, needs, strict=True))


_operator.register_autograd(_operator_backward, setup_context=_setup_context)


def _traced(inputs: Tensors) -> torch.Tensor:
    """Under ``torch.compile`` the operator, under ``torch.func`` the twin."""
    signature = _signature(inputs)
    if not is_transformed() and _kernel_runs(signature[2][0], signature[1]):
        result: torch.Tensor = _operator(*inputs)
        return result
    _check(*signature)
    return dsepconv_twin(*inputs)


def _check(shapes: Shapes, types: Types, devices: Devices) -> None:
    """Raise one error that names the wrong argument and what would be right."""
    for name, shape, kind, device in zip(NAMES, shapes, types, devices, strict=True):
        if len(shape) != 4:
            raise ValueError(f"{name} is {tuple(shape)}: pass 4 dimensions, N x C x H x W")
        if not kind.is_floating_point:
            raise TypeError(f"{name} is {kind}: pass float32, bfloat16 or float16")
        if device != devices[0]:
            raise ValueError(f"{name} is on {device}, image on {devices[0]}: use one device")
    samples, size, height, width = shapes[1]
    if size < 1:
        raise ValueError(f"vertical is {tuple(shapes[1])}: pass at least one tap along axis 1")
    planes = (size, size, *[size**2] * 3)
    for name, shape, count in zip(NAMES[1:], shapes[1:], planes, strict=True):
        right = (samples, count, height, width)
        if shape != right:
            raise ValueError(f"{name} is {tuple(shape)}: vertical's shape asks for {right}")
    right = (samples, shapes[0][1], height + size - 1, width + size - 1)
    if shapes[0] != right:
        raise ValueError(
            f"image is {tuple(shapes[0])}: vertical {tuple(shapes[1])} asks for {right}, "
            f"the frame padded by {size - 1} in all along each axis"
        )


def FunctionDSepconv(  # noqa: N802 (the original's name)
    tensorInput: torch.Tensor,  # noqa: N803 (the original's names, for callers by keyword)
    tensorVertical: torch.Tensor,  # noqa: N803
    tensorHorizontal: torch.Tensor,  # noqa: N803
    tensorOffsetX: torch.Tensor,  # noqa: N803
    tensorOffsetY: torch.Tensor,  # noqa: N803
    tensorMask: torch.Tensor,  # noqa: N803
) -> torch.Tensor:
    """Call ``dsepconv`` under the name and arguments that LDMVFI uses."""
    return dsepconv(
        tensorInput, tensorVertical, tensorHorizontal, tensorOffsetX, tensorOffsetY, tensorMask
    )


class ModuleDSepconv(torch.nn.Module):
    """Hold no parameters; the module form of ``FunctionDSepconv``."""

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Call ``dsepconv`` with LDMVFI's six tensors."""
        return dsepconv(*tensors)
