# mypy: disable-error-code="no-untyped-def"
"""The kernel under Triton's interpreter, or on a GPU, against the twin in float64."""

import pytest
import torch

from pitstop.parts.windows import ways
from pitstop.parts.windows.attention import window_attention
from pitstop.parts.windows.twin import window_attention_twin

InterpreterBuilder = pytest.importorskip("triton.runtime.interpreter").InterpreterBuilder
tl = pytest.importorskip("triton.language")
# Windows, positions of the mask (0: none), heads, queries, keys, width
SHAPES = [
    (4, 2, 3, 49, 49, 32),  # Swin
    (6, 0, 2, 64, 64, 30),  # SwinIR
    (2, 1, 2, 70, 96, 20),
    (3, 3, 1, 5, 3, 8),
    (2, 2, 1, 130, 150, 16),  # several tiles down and across
    (2, 0, 2, 16, 100, 64),  # an overlapping window of HAT
]
TOLERANCE = {torch.float32: 5e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.fixture
def kernel(monkeypatch, device):
    """Make the public function run the kernel, under the interpreter if need be."""
    monkeypatch.setattr(ways, "KERNEL_RUNS_ON", device)
    monkeypatch.setattr(ways, "_fastest", lambda _, possible, __: possible[0])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    multiply = InterpreterBuilder.create_dot

    def of_numbers(self, *given):  # the interpreter multiplies the bits of bfloat16
        half = [each.dtype.scalar == tl.bfloat16 for each in given[:2]]
        cast = [self.create_fp_ext(each, tl.float32) if all(half) else each for each in given[:2]]
        return multiply(self, *cast, *given[2:])

    monkeypatch.setattr(InterpreterBuilder, "create_dot", of_numbers)
    ways.possible.cache_clear()
    yield
    ways.possible.cache_clear()


def tensors(shape, device="cpu", dtype=torch.float32):
    """Queries, keys and values as one ``qkv`` holds them, bias, and a mask of two numbers."""
    windows, positions, heads, rows, columns, width = shape
    query = torch.randn(windows, rows, heads, width, device=device, dtype=dtype).transpose(1, 2)
    both = torch.randn(windows, columns, 2, heads, width, device=device, dtype=dtype)
    key, value = both.permute(2, 0, 3, 1, 4).unbind()
    bias = torch.randn(heads, rows, columns, device=device)
    mask = None
    if positions:
        mask = -100.0 * torch.randint(0, 2, (positions, rows, columns), device=device).float()
        mask[0] = 0
    leaves = [each.detach().requires_grad_() for each in (query, key, value, bias)]
    return (*leaves, mask)


def relative(found, expected):
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-9))


def exactly(made):
    return [
        None if each is None else each.detach().double().requires_grad_(each.requires_grad)
        for each in made
    ]


def compare(made, dtype, **more):
    exact = exactly(made)
    found = window_attention(*made, **more)
    expected = window_attention_twin(*exact, **more)
    grad = torch.randn_like(found)
    assert found.dtype == dtype
    assert relative(found, expected) < TOLERANCE[dtype]
    wanted = [each for each in made if each is not None and each.requires_grad]
    exact = [each for each in exact if each is not None and each.requires_grad]
    grads = torch.autograd.grad(found, wanted, grad)
    for one, other, leaf in zip(
        grads, torch.autograd.grad(expected, exact, grad.double()), wanted, strict=True
    ):
        assert one.dtype == leaf.dtype
        assert relative(one, other) < 2 * TOLERANCE[dtype]


GRID = [(shape, torch.float32) for shape in SHAPES]
GRID += [(shape, dtype) for shape in SHAPES[:2] for dtype in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(("shape", "dtype"), GRID, ids=str)
def test_kernel_equals_twin_with_all_gradients(kernel, device, shape, dtype):
    compare(tensors(shape, device, dtype), dtype)
