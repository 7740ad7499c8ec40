"""The CuPy kernels of frame_interpolation against plain torch. Skips itself without a GPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

TAPS = 5
EDGE = TAPS // 2

Kernel = Callable[..., Tensor]
Inputs = tuple[Tensor, ...]  # frame, vertical, horizontal, offset_x, offset_y, mask


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    pytest.importorskip("cupy")
    from pitstop.workloads.frame_interpolation.dsepconv import dsepconv

    return dsepconv


def reference(
    frame: Tensor,
    vertical: Tensor,
    horizontal: Tensor,
    offset_x: Tensor,
    offset_y: Tensor,
    mask: Tensor,
) -> Tensor:
    """The same function in plain torch: autograd gives the gradients."""
    taps = vertical.shape[1]
    height, width = vertical.shape[2:]
    y = torch.arange(height, device=frame.device)[:, None]
    x = torch.arange(width, device=frame.device)
    out = torch.zeros((*frame.shape[:2], height, width), device=frame.device, dtype=frame.dtype)
    for tap in range(taps * taps):
        i, j = divmod(tap, taps)
        place_y = offset_x[:, tap] + y + i - (taps - 1) // 2 + 1  # (B, H, W)
        place_x = offset_y[:, tap] + x + j - (taps - 1) // 2 + 1
        weight = vertical[:, i] * horizontal[:, j] * mask[:, tap]
        out = out + sample(frame, place_y, place_x) * weight[:, None]
    return out


def sample(frame: Tensor, place_y: Tensor, place_x: Tensor) -> Tensor:
    """Bilinear, except that both neighbours are the last pixel on and beyond the border."""
    last_y, last_x = frame.shape[2] - 1, frame.shape[3] - 1
    clamped_y, clamped_x = place_y.clamp(0, last_y), place_x.clamp(0, last_x)
    batch = torch.arange(frame.shape[0], device=frame.device)[:, None, None]
    total = torch.zeros((), device=frame.device, dtype=frame.dtype)
    for step_y in (0, 1):
        row = (place_y.detach().floor() + step_y).clamp(0, last_y)
        weight_y = 1 - (row - clamped_y) if step_y else 1 + (row - clamped_y)
        for step_x in (0, 1):
            column = (place_x.detach().floor() + step_x).clamp(0, last_x)
            weight_x = 1 - (column - clamped_x) if step_x else 1 + (column - clamped_x)
            pixel = frame[batch, :, row.long(), column.long()].permute(0, 3, 1, 2)
            total = total + pixel * (weight_y * weight_x)[:, None]
    return total


def random_inputs(shape: tuple[int, int, int, int], spread: float, device: str) -> Inputs:
    """Seeded inputs for an output of this shape; offsets of about ``spread`` pixels."""
    batch, _, height, width = shape
    draw = torch.Generator().manual_seed(0)

    def normal(width_out: int) -> Tensor:
        return torch.randn(batch, width_out, height, width, generator=draw)

    frame = F.pad(torch.randn(shape, generator=draw), (EDGE,) * 4, mode="replicate")
    offsets = normal(TAPS**2) * spread, normal(TAPS**2) * spread
    weights = (normal(TAPS), normal(TAPS), *offsets, normal(TAPS**2).sigmoid())
    return tuple(tensor.to(device) for tensor in (frame, *weights))


def run(function: Kernel, inputs: Inputs) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output, and the gradients of all inputs but the frame."""
    frame, *weights = inputs
    leaves = [tensor.clone().requires_grad_() for tensor in weights]
    out = function(frame, *leaves)
    pull = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape)
    return out.detach(), torch.autograd.grad(out, leaves, pull)


SHAPES = [(2, 3, 7, 9), (1, 3, 33, 18), (10, 3, 64, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.7, 5.0, 100.0])
def test_kernels_give_the_same_numbers_as_plain_torch(
    kernel: Kernel, shape: tuple[int, int, int, int], spread: float
) -> None:
    inputs = random_inputs(shape, spread, "cuda")
    out, gradients = run(kernel, inputs)
    expected, expected_gradients = run(reference, inputs)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-3)


def test_a_tap_beyond_the_border_counts_double_along_that_axis(kernel: Kernel) -> None:
    ones = [torch.ones_like(tensor) for tensor in random_inputs((1, 3, 8, 8), 0.0, "cuda")]
    frame, vertical, horizontal, offset_x, offset_y, mask = ones
    out = kernel(frame, vertical, horizontal, 50 * offset_x, -50 * offset_y, mask)
    torch.testing.assert_close(out, torch.full_like(out, 4.0 * TAPS**2))


def test_refuses_tensors_that_are_not_on_the_gpu(kernel: Kernel) -> None:
    with pytest.raises(AssertionError):
        kernel(*random_inputs((1, 3, 8, 8), 1.0, "cpu"))


def test_insists_on_contiguous_inputs(kernel: Kernel) -> None:
    frame, *weights = random_inputs((2, 3, 8, 8), 1.0, "cuda")
    with pytest.raises(AssertionError):
        kernel(frame.to(memory_format=torch.channels_last), *weights)
