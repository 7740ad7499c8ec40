# mypy: disable-error-code="call-arg,no-untyped-def,no-untyped-call"

import subprocess
import sys

import pytest
import torch

from pitstop.parts import dsepconv
from pitstop.parts.dsepconv import FunctionDSepconv, ModuleDSepconv, dsepconv_twin, operator
from pitstop.parts.dsepconv.twin import image_gradient

pytest.importorskip("triton")
SHAPES = [(2, 3, 7, 11, 5), (1, 2, 13, 10, 3), (1, 5, 3, 4, 4), (3, 1, 1, 1, 1)]  # N, C, H, W, F
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def tensors(shape, device="cpu", dtype=torch.float32, reach=3.0):
    samples, channels, height, width, size = shape
    planes = [(channels, size - 1), (size, 0), (size, 0), *[(size * size, 0)] * 3]
    made = [
        torch.randn(samples, count, height + more, width + more, device=device)
        for count, more in planes
    ]
    made[3] *= reach  # many taps leave the image
    made[4] *= reach
    return [each.to(dtype).requires_grad_() for each in made]


def relative(found, expected):
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-9))


@pytest.fixture
def kernel(monkeypatch):
    """Make the public function run the kernel, under the interpreter if need be."""
    monkeypatch.setattr(operator, "_kernel_runs", lambda *_: True)
    operator._plan.cache_clear()
    yield
    operator._plan.cache_clear()


def one_pixel(tensors, n, c, y, x):
    """The definition, tap by tap in plain Python, as the original computes it."""
    image, vertical, horizontal, offset_x, offset_y, mask = tensors
    size, last_y, last_x = vertical.shape[1], image.shape[2] - 1, image.shape[3] - 1
    total = 0.0
    for i in range(size):
        for j in range(size):
            tap = i * size + j
            at_y = float(offset_x[n, tap, y, x]) + y + i - (size - 1) // 2 + 1
            at_x = float(offset_y[n, tap, y, x]) + x + j - (size - 1) // 2 + 1
            near_y, near_x = int(at_y // 1), int(at_x // 1)
            top, bottom = (min(max(each, 0), last_y) for each in (near_y, near_y + 1))
            left, right = (min(max(each, 0), last_x) for each in (near_x, near_x + 1))
            at_y, at_x = min(max(at_y, 0), last_y), min(max(at_x, 0), last_x)
            value = 0.0
            for row, row_weight in ((top, 1 + (top - at_y)), (bottom, 1 - (bottom - at_y))):
                for column, weight in ((left, 1 + (left - at_x)), (right, 1 - (right - at_x))):
                    value += float(image[n, c, row, column]) * row_weight * weight
            weight = float(vertical[n, i, y, x] * horizontal[n, j, y, x] * mask[n, tap, y, x])
            total += value * weight
    return total


@pytest.mark.parametrize("size", [3, 4, 5])
def test_twin_is_the_definition_borders_included(size):
    made = [each.detach().double() for each in tensors((1, 2, 5, 6, size))]
    found = dsepconv_twin(*made)
    for c in range(2):
        for y in range(5):
            for x in range(6):
                assert float(found[0, c, y, x]) == pytest.approx(one_pixel(made, 0, c, y, x))


@pytest.mark.parametrize("size", [2, 3])
def test_twin_passes_gradcheck(size):
    made = [each.detach().double().requires_grad_() for each in tensors((1, 2, 2, 3, size))]
    assert torch.autograd.gradcheck(dsepconv_twin, made, nondet_tol=1e-12)
    assert torch.autograd.gradcheck(dsepconv.dsepconv, made, nondet_tol=1e-12)


GRID = [(shape, torch.float32) for shape in SHAPES]
GRID += [(SHAPES[1], torch.bfloat16), (SHAPES[1], torch.float16)]


@pytest.mark.parametrize(("shape", "dtype"), GRID, ids=str)
def test_kernel_equals_twin_with_all_gradients(kernel, device, shape, dtype):
    made = tensors(shape, device, dtype)
    found = dsepconv.dsepconv(*made)
    exact = [each.detach().float().requires_grad_() for each in made]
    expected = dsepconv_twin(*exact)
    grad = torch.randn_like(found)
    assert found.dtype == dtype
    assert relative(found, expected) < TOLERANCE[dtype]
    found_grads = torch.autograd.grad(found, made, grad)
    expected_grads = torch.autograd.grad(expected, exact, grad.float())
    for one, other in zip(found_grads, expected_grads, strict=True):
        assert one.dtype == dtype
        assert relative(one, other) < TOLERANCE[dtype]


def test_many_channels_are_looped_over(kernel, device):
    made = tensors((1, 17, 1, 3, 2), device)
    found, expected = dsepconv.dsepconv(*made), dsepconv_twin(*made)
    assert relative(found, expected) < 2e-6
    grad = torch.randn_like(found)
    pairs = [torch.autograd.grad(each, made, grad) for each in (found, expected)]
    for one, other in zip(*pairs, strict=True):
        assert relative(one, other) < 2e-6


def test_only_the_gradients_asked_for(kernel, device):
    made = [each.detach() for each in tensors(SHAPES[2], device)]
    made[0].requires_grad_()
    (only,) = torch.autograd.grad(dsepconv.dsepconv(*made).sum(), made[:1])
    (expected,) = torch.autograd.grad(dsepconv_twin(*made).sum(), made[:1])
    assert relative(only, expected) < 2e-6


def test_image_gradient_in_a_fixed_order_is_the_same(device):
    made = tensors(SHAPES[0], device)
    grad = torch.randn(2, 3, 7, 11, device=device)
    (expected,) = torch.autograd.grad(dsepconv_twin(*made), made[:1], grad)
    with torch.no_grad():
        assert relative(image_gradient(grad, made), expected) < 2e-6


def test_any_layout_and_mixed_types(kernel, device):
    made = [each.detach() for each in tensors(SHAPES[0], device)]
    mixed = [each.to(memory_format=torch.channels_last) for each in made]
    mixed[1] = mixed[1].bfloat16()
    made[1] = made[1].bfloat16()
    assert relative(dsepconv.dsepconv(*mixed), dsepconv_twin(*made)) < 2e-6


def test_far_and_nan_positions_stay_inside_memory(kernel, device):
    made = [each.detach() for each in tensors((1, 1, 4, 5, 3), device)]
    made[3][..., 0] = float("nan")
    made[3][..., 1] = float("inf")
    made[4][..., 2] = -1e30
    found, expected = dsepconv.dsepconv(*made), dsepconv_twin(*made)
    assert found[..., 0].isnan().all()
    assert expected[..., 0].isnan().all()
    assert torch.allclose(found[..., 1:], expected[..., 1:], rtol=1e-4, atol=1e-5)


def test_empty_batches_give_empty_results(device):
    made = tensors((0, 3, 4, 4, 3), device)
    result = dsepconv.dsepconv(*made)
    assert result.shape == (0, 3, 4, 4)
    assert torch.autograd.grad(result.sum(), made)[3].shape == (0, 9, 4, 4)


@pytest.mark.parametrize("by_kernel", [False, True])
def test_compiles_without_a_graph_break(device, by_kernel, monkeypatch):
    monkeypatch.setattr(operator, "_kernel_runs", lambda *_: by_kernel)
    operator._plan.cache_clear()
    made = tensors((1, 2, 4, 5, 3), device)
    compiled = torch.compile(
        lambda *inputs: dsepconv.dsepconv(*inputs) * 2, fullgraph=True, backend="aot_eager"
    )
    grads = torch.autograd.grad(compiled(*made).sum(), made)
    expected = torch.autograd.grad((dsepconv_twin(*made) * 2).sum(), made)
    for one, other in zip(grads, expected, strict=True):
        assert relative(one, other) < 2e-6


def test_operator_obeys_its_contract(kernel, device):
    registered = torch.ops.pitstop.dsepconv.default
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    made = tensors((1, 1, 2, 3, 2), device)
    torch.library.opcheck(registered, tuple(made), test_utils=checks)
    odd = [each.detach().transpose(2, 3).contiguous().transpose(2, 3) for each in made]
    odd[0] = odd[0].expand(1, 2, -1, -1)
    torch.library.opcheck(registered, tuple(odd), test_utils=checks)
    backward = torch.ops.pitstop.dsepconv_backward.default
    needs = [True] * len(odd)
    grad = torch.randn_like(registered(*odd)).transpose(2, 3).contiguous().transpose(2, 3)
    torch.library.opcheck(backward, (grad, odd, needs), test_utils=checks)


def test_has_the_names_of_the_original(device):
    made = tensors(SHAPES[1], device)
    names = ("Input", "Vertical", "Horizontal", "OffsetX", "OffsetY", "Mask")
    by_name = {f"tensor{name}": each for name, each in zip(names, made, strict=True)}
    expected = dsepconv_twin(*made)
    assert torch.allclose(FunctionDSepconv(**by_name), expected, atol=1e-5)
    assert torch.allclose(ModuleDSepconv()(*made), expected, atol=1e-5)
    assert list(ModuleDSepconv().state_dict()) == []


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (0, lambda t: t[..., 1:], r"image is \(2, 3, 11, 14\): .* asks for \(2, 3, 11, 15\)"),
        (0, lambda t: t[0], "image is .*: pass 4 dimensions"),
        (1, lambda t: t[:, :0], r"vertical is \(2, 0, 7, 11\): pass at least one tap"),
        (2, lambda t: t[:, :4], r"horizontal is \(2, 4, 7, 11\): .* asks for \(2, 5, 7, 11\)"),
        (3, lambda t: t[:1], "offset_x is"),
        (5, lambda t: t.detach().int(), "mask is torch.int32: pass float32"),
        (4, lambda t: t.to("meta"), "offset_y is on meta, image on"),
    ],
)
def test_names_the_wrong_argument(device, index, change, message):
    made = tensors(SHAPES[0], device)
    made[index] = change(made[index])
    with pytest.raises((ValueError, TypeError), match=message):
        dsepconv.dsepconv(*made)


def test_a_wrong_call_is_refused_after_a_right_one_of_the_same_size(device):
    made = tensors(SHAPES[1], device)
    dsepconv.dsepconv(*made)
    with pytest.raises(ValueError, match="mask is on meta"):
        dsepconv.dsepconv(*made[:5], made[5].to("meta"))
    with pytest.raises(TypeError, match=r"mask is torch\.int64"):
        dsepconv.dsepconv(*made[:5], made[5].detach().long())


def test_second_derivatives_are_the_twins(kernel, device):
    made = tensors((1, 2, 3, 4, 3), device)
    answers = []
    for function in (dsepconv.dsepconv, dsepconv_twin):
        (slope,) = torch.autograd.grad(function(*made).square().sum(), made[1], create_graph=True)
        answers.append(torch.autograd.grad(slope.square().sum(), made))
    assert all(relative(one, other) < 1e-5 for one, other in zip(*answers, strict=True))


def test_function_transforms_take_the_twin(device):
    made = tensors((1, 2, 3, 4, 3), device)
    slope = torch.func.grad(lambda mask: dsepconv.dsepconv(*made[:5], mask).sum())(made[5])
    (expected,) = torch.autograd.grad(dsepconv_twin(*made).sum(), made[5])
    assert relative(slope, expected) < 1e-6


def test_works_where_triton_is_missing():
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'triton' else real(n, *a)\n"
        "import torch; from pitstop.parts import dsepconv\n"
        "z = torch.zeros\n"
        "print(dsepconv.dsepconv(z(1,1,3,3), *[z(1,1,3,3)] * 5).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "torch.Size([1, 1, 3, 3])" in done.stdout, done.stderr
