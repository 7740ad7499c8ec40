"""The deformable separable convolution in plain PyTorch: fallback, oracle and documentation.

A row of F taps is gathered at once, so that F steps of vector work replace 25 warped images, and
only one row's intermediates are alive in the hand-driven backward.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

HALF_TYPES = (torch.bfloat16, torch.float16)
Tensors = Sequence[torch.Tensor]


def dsepconv_twin(
    image: torch.Tensor,
    vertical: torch.Tensor,
    horizontal: torch.Tensor,
    offset_x: torch.Tensor,
    offset_y: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Filter ``image`` with per-pixel kernels; differentiable to any order."""
    inputs = (image, vertical, horizontal, offset_x, offset_y, mask)
    rows = [_row_of_taps(row, inputs) for row in range(vertical.shape[1])]
    return torch.stack(rows).sum(0).to(image.dtype)


def twin_backward(grad: torch.Tensor, inputs: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Differentiate the twin row by row; gradients of those inputs that need one."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_(need) for t, need in zip(inputs, needs, strict=True)]
        for row in range(inputs[1].shape[1]):
            _row_of_taps(row, leaves).backward(grad)
    return [leaf.grad for leaf in leaves]


def image_gradient(grad: torch.Tensor, inputs: Tensors) -> torch.Tensor:
    """Gradient of the image in a fixed order of additions, which atomics do not have."""
    image, size = inputs[0], inputs[1].shape[1]
    samples, channels = image.shape[:2]
    exact = _at_least_fp32(grad)
    total = torch.zeros(image.numel(), dtype=exact.dtype, device=image.device)
    planes = torch.arange(samples * channels, device=image.device).view(samples, channels, 1)
    planes = planes * image.shape[2] * image.shape[3]
    for row in range(size):
        for where, weight in _corners(row, inputs):
            value = exact[:, :, None] * weight[:, None]  # (N, C, F, H, W)
            index = planes + where[:, None]
            total.index_put_((index.flatten(),), value.flatten(), accumulate=True)
    return total.view_as(image).to(image.dtype)


def _row_of_taps(row: int, inputs: Tensors) -> torch.Tensor:
    """Sum the taps (row, 0..F-1)."""
    image = _at_least_fp32(inputs[0])
    channels, (size, height, width) = image.shape[1], inputs[1].shape[1:]
    pixels = image.flatten(2)
    taken = pixels.new_zeros(())
    for where, weight in _corners(row, inputs):
        value = pixels.gather(2, where[:, None].expand(-1, channels, -1))
        taken = taken + value.unflatten(2, (size, height, width)) * weight[:, None]
    return taken.sum(2)


def _corners(row: int, inputs: Tensors) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The four corners of a row of taps: pixel indices (N, F * H * W), weights (N, F, H, W)."""
    in_height, in_width = inputs[0].shape[2:]
    vertical, horizontal, offset_x, offset_y, mask = (_at_least_fp32(t) for t in inputs[1:])
    size, height, width = vertical.shape[1:]
    taps, half = slice(row * size, (row + 1) * size), (size - 1) // 2
    y = torch.arange(height, device=mask.device).to(offset_x.dtype).view(-1, 1)
    x = torch.arange(width, device=mask.device).to(offset_y.dtype)
    column = torch.arange(size, device=mask.device).to(offset_y.dtype).view(-1, 1, 1)
    rows = _neighbours(offset_x[:, taps] + y + row - half + 1, in_height - 1)
    columns = _neighbours(offset_y[:, taps] + x + column - half + 1, in_width - 1)
    kernel = vertical[:, row : row + 1] * horizontal * mask[:, taps]
    for y_index, y_weight in rows:
        for x_index, x_weight in columns:
            yield (y_index * in_width + x_index).flatten(1), kernel * y_weight * x_weight


def _neighbours(position: torch.Tensor, last: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Both whole positions around ``position``, clamped to 0..last, with their weights."""
    low = position.detach().floor()
    inside = position.clamp(0, last)
    near, far = (each.nan_to_num(0).clamp(0, last) for each in (low, low + 1))
    return [(near.long(), 1 + (near - inside)), (far.long(), 1 - (far - inside))]


def _at_least_fp32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALF_TYPES else tensor
