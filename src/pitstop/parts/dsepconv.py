"""Deformable separable convolution: drop-in for LDMVFI's ``cupy_module.dsepconv``.

Every output pixel is a sum over F x F taps. Tap (i, j) reads the padded image with bilinear
weights at the pixel's own position plus (i, j) plus a learned offset, and counts
``vertical[i] * horizontal[j] * mask[i, j]``. Conventions of the original, kept to the letter:
``offset_x`` moves along y and ``offset_y`` along x; the window starts at ``1 - (F - 1) // 2``;
past the border both bilinear neighbours are the border pixel with weight one, so it counts twice.

Why it is slow in plain PyTorch: 25 ``grid_sample`` calls write and re-read 25 warped images. The
original CuPy kernel runs each gradient in a kernel of its own (six passes that gather the same
pixels again), rewrites its source on every call, and leaves the image gradient at zero.

What is fused: the forward is one kernel; the whole backward is one kernel that gathers each
corner once for all channels and all five field gradients. The image gradient, when asked for, is
added in the same pass with atomics.

Layout: contiguous NCHW; other inputs are copied. fp32, bf16 and fp16 (mixed too), positions and
sums in fp32. fp64, CPU tensors and machines without Triton take the twin.

Floor: fields are 10 + 3 * 25 planes against 6 planes of image, so the bytes are the fields', read
twice and their gradients written once. On an H200 (4.3 TB/s) at (10, 3, 256, 256), fp32: forward
0.056 ms, with backward 0.163 ms; at (1, 3, 1080, 1920): 0.176 and 0.516 ms. Tuned there for F = 5
with 3 channels; other odd and even F and any channel count work.

Determinism: outputs and field gradients are bitwise reproducible. The image gradient on CUDA sums
by atomics in arbitrary order; under ``torch.use_deterministic_algorithms(True)`` the twin computes
it in a fixed order. Not supported: double backward through the kernel, F different per axis.
"""

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from pitstop.parts.dsepconv_twin import dsepconv_twin, image_gradient, twin_backward
from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES

__all__ = ["FunctionDSepconv", "ModuleDSepconv", "dsepconv", "dsepconv_twin"]

FIELDS = ("vertical", "horizontal", "offset_x", "offset_y", "mask")
CHANNELS_AT_ONCE = 16  # of one backward launch; its code grows with them
Tensors = tuple[torch.Tensor, ...]


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
    if torch.compiler.is_compiling() and _kernel_runs(inputs, [each.dtype for each in inputs]):
        compiled: torch.Tensor = _operator(*inputs)
        return compiled
    _check(inputs)
    if torch.compiler.is_compiling():
        return dsepconv_twin(*inputs)
    if torch.is_grad_enabled() and (
        vertical.requires_grad
        or image.requires_grad
        or horizontal.requires_grad
        or offset_x.requires_grad
        or offset_y.requires_grad
        or mask.requires_grad
    ):
        result: torch.Tensor = _FunctionDSepconv.apply(*inputs)  # type: ignore[no-untyped-call]
        return result
    return _forward(inputs)


def _forward(inputs: Tensors) -> torch.Tensor:
    types = tuple([each.dtype for each in inputs])
    if not _kernel_runs(inputs, types):
        with torch.no_grad():
            return dsepconv_twin(*inputs)
    image, vertical = inputs[0], inputs[1]
    output = image.new_empty(image.shape[:2] + vertical.shape[2:])
    if output.numel():
        dense = [each if each.is_contiguous() else each.contiguous() for each in inputs]
        _kernels().launch_forward(dense[0], tuple(dense[1:]), output, types)
    return output


def _backward(grad: torch.Tensor, inputs: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Gradients of those inputs that need one, None for the others."""
    types = tuple([each.dtype for each in inputs])
    if grad.numel() == 0 or not _kernel_runs(inputs, types):
        return twin_backward(grad, inputs, needs)
    if inputs[0].shape[1] > CHANNELS_AT_ONCE:
        return _backward_in_parts(grad, inputs, needs)
    dense = tuple([each if each.is_contiguous() else each.contiguous() for each in inputs])
    grad = grad if grad.is_contiguous() else grad.contiguous()
    grads: list[Any] = [None] * 6
    if any(needs[1:]):
        grads[1:] = [torch.empty_like(each) for each in dense[1:]]
    if needs[0] and not torch.are_deterministic_algorithms_enabled():
        grads[0] = torch.zeros_like(dense[0], dtype=torch.float32)
    if grads[0] is not None or grads[1] is not None:
        _kernels().launch_backward(grad, dense, tuple(grads), types)
    if grads[0] is not None:
        grads[0] = grads[0].to(dense[0].dtype)
    elif needs[0]:
        grads[0] = image_gradient(grad, inputs)
    return [each if need else None for each, need in zip(grads, needs, strict=True)]


def _backward_in_parts(grad: torch.Tensor, inputs: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Take many channels a few at a time, since the kernel unrolls them; sum in fp32."""
    pieces = zip(grad.split(CHANNELS_AT_ONCE, 1), inputs[0].split(CHANNELS_AT_ONCE, 1), strict=True)
    parts = [_backward(piece, (image, *inputs[1:]), needs) for piece, image in pieces]
    grads: list[Any] = [torch.cat([part[0] for part in parts], 1) if needs[0] else None]
    for index in range(1, 6):
        total = sum(part[index].float() for part in parts) if needs[index] else None
        grads.append(None if total is None else total.to(inputs[index].dtype))
    return grads


@cache
def _kernels() -> Any:
    """The module that needs Triton, imported when a kernel first runs."""
    return importlib.import_module("pitstop.parts.dsepconv_kernels")


def _kernel_runs(inputs: Tensors, types: Sequence[torch.dtype]) -> bool:
    return HAS_TRITON and inputs[0].is_cuda and KERNEL_TYPES.issuperset(types)


class _FunctionDSepconv(torch.autograd.Function):
    """The eager path: half the CPU cost of the registered operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*inputs)
        return _forward(inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return tuple(_backward(grad, ctx.saved_tensors, ctx.needs_input_grad))


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
    inputs = (image, vertical, horizontal, offset_x, offset_y, mask)
    _check(inputs)
    return _forward(inputs)


@_operator.register_fake
def _(image: torch.Tensor, vertical: torch.Tensor, *_rest: torch.Tensor) -> torch.Tensor:
    return image.new_empty(image.shape[:2] + vertical.shape[2:])


@torch.library.custom_op("pitstop::dsepconv_backward", mutates_args=())
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


def _check(inputs: Tensors) -> None:
    """Raise one error that names the wrong argument; the good case is one comparison each."""
    image, vertical, horizontal, offset_x, offset_y, mask = inputs
    shape = vertical.shape
    if len(shape) == 4 and image.dim() == 4:
        samples, size, height, width = shape
        taps = (samples, size * size, height, width)
        padded = (samples, image.shape[1], height + size - 1, width + size - 1)
        device = image.device
        if (
            image.shape == padded
            and horizontal.shape == shape
            and offset_x.shape == taps
            and offset_y.shape == taps
            and mask.shape == taps
            and all([t.device == device and t.is_floating_point() for t in inputs])  # noqa: C419 (faster)
        ):
            return
    _explain(inputs)


def _explain(inputs: Tensors) -> None:
    """Find which argument is wrong and say what would be right."""
    for name, tensor in zip(("image", *FIELDS), inputs, strict=True):
        if tensor.dim() != 4:
            raise ValueError(f"{name} is {tuple(tensor.shape)}: pass 4 dimensions, N x C x H x W")
        if not tensor.is_floating_point():
            raise TypeError(f"{name} is {tensor.dtype}: pass float32, bfloat16 or float16")
        if tensor.device != inputs[0].device:
            raise ValueError(
                f"{name} is on {tensor.device}, image on {inputs[0].device}: use one device"
            )
    samples, size, height, width = inputs[1].shape
    for name, tensor, planes in zip(FIELDS[1:], inputs[2:], (size, *[size**2] * 3), strict=True):
        if tensor.shape != (samples, planes, height, width):
            right = (samples, planes, height, width)
            raise ValueError(f"{name} is {tuple(tensor.shape)}: vertical's shape asks for {right}")
    right = (samples, inputs[0].shape[1], height + size - 1, width + size - 1)
    raise ValueError(
        f"image is {tuple(inputs[0].shape)}: vertical {tuple(inputs[1].shape)} asks for {right}, "
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
