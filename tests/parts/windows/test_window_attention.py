# mypy: disable-error-code="no-untyped-def"
"""The kernel under Triton's interpreter, or on a GPU, against the twin in float64."""

import time

import pytest
import torch

from pitstop.parts.windows import launch, ways
from pitstop.parts.windows.attention import window_attention
from pitstop.parts.windows.twin import window_attention_twin
from pitstop.parts.windows.ways import Way

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
    multiply = InterpreterBuilder.create_dot

    def of_numbers(self, *given):  # the interpreter multiplies the bits of bfloat16
        half = [each.dtype.scalar == tl.bfloat16 for each in given[:2]]
        cast = [self.create_fp_ext(each, tl.float32) if all(half) else each for each in given[:2]]
        return multiply(self, *cast, *given[2:])

    monkeypatch.setattr(InterpreterBuilder, "create_dot", of_numbers)
    ways.possible.cache_clear()
    ways._fastest_known.cache_clear()
    yield
    ways.possible.cache_clear()
    ways._fastest_known.cache_clear()


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


@pytest.mark.parametrize("scale", [0.3, "learned"])
def test_kernel_takes_a_scale_of_each_head(kernel, device, scale):
    made = tensors(SHAPES[0], device)
    if scale == "learned":
        scale = torch.rand(3, 1, 1, device=device).requires_grad_()
        exact = [*exactly(made), scale.detach().double().requires_grad_()]
        given = [*made, scale]
        grads = []
        for each in (given, exact):
            function = window_attention if each is given else window_attention_twin
            result = function(*each)
            grads.append(torch.autograd.grad(result.sum(), [each[3], each[5]]))
        for one, other in zip(*grads, strict=True):
            assert relative(one, other) < 1e-5
    else:
        compare(made, torch.float32, scale=scale)


def test_kernel_takes_a_mask_that_is_one_row_for_all_queries(kernel, device):
    query, key, value, bias, _ = tensors(SHAPES[0], device)
    mask = torch.zeros(2, 1, 49, device=device)
    mask[1:, :, 20:] = -100.0
    compare((query, key, value, bias, mask.expand(2, 49, 49)), torch.float32)


def test_kernel_takes_infinities_of_the_mask(kernel, device):
    query, key, value, bias, mask = tensors((4, 4, 2, 33, 33, 16), device)
    mask = torch.where(mask < 0, float("-inf"), 0.0)
    mask[..., 0] = 0.0  # each query has a key
    compare((query, key, value, bias, mask), torch.float32)
    mask[0, 3] = float("-inf")  # and one has none: as eager, no number
    found = window_attention(query, key, value, bias, mask)
    assert found[0, :, 3].isnan().all()
    assert not found[0, :, 4].isnan().any()


def test_kernel_takes_a_bias_that_heads_and_queries_share(kernel, device):
    query, key, value, _, mask = tensors(SHAPES[0], device)
    for shape in ((1, 49, 49), (3, 1, 49), (1, 3, 49, 49), (49, 49)):
        bias = torch.randn(shape, device=device).requires_grad_()
        compare((query, key, value, bias, mask), torch.float32)


def test_kernel_does_without_bias_mask_and_gradients(kernel, device):
    query, key, value, *_ = tensors(SHAPES[2], device)
    compare((query, key, value, None, None), torch.float32)
    with torch.no_grad():
        found = window_attention(query, key, value)
        assert relative(found, window_attention_twin(*exactly((query, key, value)))) < 1e-5
    for wanted in (query, key, value):
        grads = [
            torch.autograd.grad(function(query, key, value).sum(), wanted)[0]
            for function in (window_attention, window_attention_twin)
        ]
        assert relative(*grads) < 1e-5


def test_kernel_takes_any_strides_and_large_scores(kernel, device):
    query, key, value, bias, mask = tensors(SHAPES[1], device)
    across = [each.detach().transpose(2, 3).contiguous().transpose(2, 3) for each in (query, key)]
    across = [each.requires_grad_() for each in across]
    compare((*across, value, bias, mask), torch.float32)
    large = (query.detach() * 60).requires_grad_()
    found = window_attention(large, key, value, bias, mask)
    assert found.isfinite().all()
    exact = window_attention_twin(*exactly((large, key, value, bias, mask)))
    assert relative(found, exact) < 1e-4


def test_what_the_kernel_cannot_take_is_computed_all_the_same(kernel, device):
    query, key, value, bias, mask = tensors(SHAPES[0], device)
    learned = mask.clone().requires_grad_()
    wide = torch.randn(2, 1, 8, 80, device=device)
    doubles = [each.detach().double() for each in (query, key, value, bias, mask)]
    every = torch.zeros(5, 2, 8, 8, device=device)
    few = torch.randn(5, 2, 8, 16, device=device)
    for given in (
        (query, key, value, bias, learned),
        (wide, wide, wide),
        doubles,
        (few, few, few, every),
        (query[:0], key[:0], value[:0], bias),
        (query[..., :0, :], key, value),
    ):
        call = ways.call_of(*(*given, *[None] * 6)[:6])
        assert not ways.kernel_fits(call)
        found = window_attention(*given)
        assert found.shape == (*given[0].shape[:-1], given[2].shape[-1])
        torch.testing.assert_close(found, window_attention_twin(*given), rtol=1e-4, atol=1e-5)


def nearest(tensor):
    """What a matrix unit keeps of float32: ten bits behind the first."""
    bits = tensor.detach().contiguous().view(torch.int32)
    return ((bits + 0x1000) & -0x2000).view(torch.float32)


def test_kernel_rounds_to_the_nearest_tf32_where_torch_may(kernel, device, monkeypatch):
    monkeypatch.setattr(launch, "uses_tf32", lambda: True)
    made = tensors((4, 2, 2, 48, 64, 16), device)
    exact = exactly(made)
    with torch.no_grad():
        found = window_attention(*made)
        rounded = window_attention_twin(*map(nearest, made[:3]), *made[3:], scale=0.25)
        expected = window_attention_twin(*exact)
    assert relative(found, rounded) < 2e-4  # the weights are rounded, too
    assert 1e-5 < relative(found, expected) < 5e-4
    share = ((found - expected) * expected).sum() / expected.square().sum()
    assert abs(float(share)) < 5e-5  # to both sides; cut off, it would be 3e-4 and more
    grad = torch.randn_like(found)
    grads = torch.autograd.grad(window_attention(*made), made[:4], grad)
    others = torch.autograd.grad(window_attention_twin(*exact), exact[:4], grad.double())
    for one, other in zip(grads, others, strict=True):
        assert relative(one, other) < 1e-3


def test_calls_that_differ_in_windows_alone_are_of_one_kind():
    def kind(windows, positions):
        return ways.kind_of(ways.call_of(*tensors((windows, positions, 3, 5, 5, 8)), None))

    assert kind(8, 4) == kind(12, 4)
    assert kind(16, 4) != kind(12, 4)
    assert kind(9, 3).mask.shape[0] == 2
    assert kind(3, 3).bias.shape == (3, 5, 5)  # as many heads as windows
    assert kind(1, 0).query.shape[0] == 1


def test_what_is_fastest_is_measured_by_running_it():
    made = tensors((4, 0, 2, 16, 16, 8))
    call = ways.call_of(*made, None)
    slow = []

    def sleeps(*given):
        slow.append(1)
        time.sleep(0.02)
        return window_attention_twin(*given)

    def fails(*_):
        raise torch.OutOfMemoryError

    runs = (sleeps, fails, window_attention_twin)
    assert ways._fastest(call, tuple(Way), runs) is Way.TWIN
    assert len(slow) == 1 + ways.REPEATS
    assert ways._fastest(call, tuple(Way), runs[::-1]) is Way.KERNEL
    assert made[0].grad is None
