"""Workspace: what operations on a GPU take inside themselves, which no tensor of Python shows.

A convolution in channels-first layout is computed by cuDNN's tensor cores in channels-last: its
input and result are copied. The backward pass of a convolution does so for two kernels, one after
the other, and sums gradients of half-precision weights in fp32. The backward pass of flash
attention sums the gradient of the queries in fp32. cuBLAS keeps one workspace for each thread that
multiplies: the script's, and autograd's.
"""

from collections.abc import Callable
from typing import Any

import torch

MIB = 2**20
CUBLAS = 32 * MIB  # from Hopper on; 8.125 MiB before
FP32 = 4  # bytes of a number
HALVES = (torch.float16, torch.bfloat16)


def bytes_inside(func: Any, args: Any, result: Any) -> int:
    """Bytes that the operation holds beside its inputs and results, while it runs."""
    name = str(getattr(func, "_overloadpacket", func)).removeprefix("aten.")
    inside = INSIDE.get(name)
    return inside(args, result) if inside else 0


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory = formats.get(tensor.dim())
    return memory is not None and tensor.is_contiguous(memory_format=memory)


def _convolution(args: Any, result: Any) -> int:
    x, weight = args[0], args[1]
    if _is_channels_last(x) or args[8] == x.shape[1]:  # depthwise has kernels of its own
        return 0
    return _bytes(x) + _bytes(weight) + _bytes(result)


def _convolution_backward(args: Any, _: Any) -> int:
    gradient, x, weight = args[0], args[1], args[2]
    if args[9] == x.shape[1] and args[9] > 1:
        return 0
    sums = weight.numel() * FP32 if weight.dtype in HALVES else 0
    if _is_channels_last(x) and _is_channels_last(gradient):
        return sums
    return _bytes(x) + _bytes(gradient) + max(sums, _bytes(weight))


def _flash_backward(args: Any, _: Any) -> int:
    query = args[1]
    batch, heads, length, head = query.shape
    length, head = -(-length // 128) * 128, -(-head // 32) * 32
    return int(batch * heads * length * (head + 1) * FP32)


def _efficient_backward(args: Any, _: Any) -> int:
    query, key = args[1], args[2]
    delta = query.shape[0] * query.shape[1] * query.shape[2] * FP32
    sums = FP32 * (query.numel() + 2 * key.numel()) if query.dtype in HALVES else 0
    return int(delta + sums)


INSIDE: dict[str, Callable[[Any, Any], int]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_cudnn_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
}
