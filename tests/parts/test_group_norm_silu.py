# mypy: disable-error-code="call-arg,no-untyped-def,no-untyped-call"

import importlib
import sys

import pytest
import torch
import torch.nn.functional as F

from pitstop.parts import group_norm_silu
from pitstop.parts.group_norm.group_norm_silu import group_norm_silu_twin

pytest.importorskip("triton")
operator = importlib.import_module("pitstop.parts.group_norm.operator")
small = importlib.import_module("pitstop.parts.group_norm.whole")
launching = importlib.import_module("pitstop.parts.group_norm.launch")
part = sys.modules["pitstop.parts.group_norm.group_norm_silu"]
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
# shape, groups, channels-last, dtype, what else is given
GRID = [
    ((2, 6, 7, 11), 3, False, torch.float32, ()),
    ((1, 6, 7, 11), 2, True, torch.float32, ("weight", "bias")),
    ((2, 6, 5, 3), 3, True, torch.float32, ("weight", "bias", "scale", "shift", "residual")),
    ((2, 6, 5, 3), 6, False, torch.float32, ("scale", "channel_bias")),
    ((1, 4, 3, 5, 7), 2, True, torch.float32, ("weight", "bias", "channel_bias")),
    ((1, 4, 3, 5, 7), 1, False, torch.float32, ("shift", "residual")),
    ((3, 20), 2, False, torch.float32, ("weight",)),
    ((1, 6, 7, 11), 2, True, torch.bfloat16, ("weight", "bias", "residual")),
    ((1, 6, 7, 11), 2, False, torch.float16, ("weight", "bias", "channel_bias")),
]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.fixture(params=["one launch", "three launches"])
def kernel(monkeypatch, request):
    """Make the public function run the kernels, under the interpreter if need be."""
    monkeypatch.setattr(part, "_kernel_runs", lambda _: True)
    for name in ("PLANES", "ROWS"):  # many tiles and chunks even of a small input
        monkeypatch.setattr(launching, name, launching.Tiling(16, 4, 8))
        limit = 0 if request.param == "three launches" else 1 << 20
        monkeypatch.setattr(small, f"{name}_LIMIT", limit)
    monkeypatch.setattr(small, "BLOCK", 16)
    monkeypatch.setattr(operator, "RECORDING_PAYS", 0)
    monkeypatch.setattr(launching, "STAGES", 2)
    kept = (
        *(launching.plan, launching._forward, launching._forward_passes),
        launching._backward_passes,
    )
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


def arguments(shape, channels_last, dtype, given, device):
    x = (torch.randn(shape, device=device) * 3 + 20).to(dtype)
    if channels_last:
        x = x.contiguous(memory_format=LAYOUTS[x.dim()])
    sizes = dict.fromkeys(("weight", "bias", "channel_bias"), shape[1:2])
    sizes |= dict.fromkeys(("scale", "shift"), shape[:2]) | {"residual": shape}
    more = {name: torch.randn(sizes[name], device=device).to(dtype) for name in given}
    return x.requires_grad_(), {name: each.requires_grad_() for name, each in more.items()}


def relative(found, expected, least=1e-3):
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(least))


@pytest.mark.parametrize(("shape", "groups", "channels_last", "dtype", "given"), GRID, ids=str)
def test_kernel_equals_twin_with_all_gradients(
    kernel, device, shape, groups, channels_last, dtype, given
):
    x, more = arguments(shape, channels_last, dtype, given, device)
    found = group_norm_silu(x, groups, **more, silu=groups != 6)
    exact = [each.detach().double().requires_grad_() for each in (x, *more.values())]
    expected = group_norm_silu_twin(
        exact[0], groups, **dict(zip(more, exact[1:], strict=True)), silu=groups != 6
    )
    assert (found.dtype, found.stride()) == (dtype, x.stride())
    assert relative(found, expected) < TOLERANCE[dtype]
    grad = torch.randn_like(found)
    found_grads = torch.autograd.grad(found, (x, *more.values()), grad)
    expected_grads = torch.autograd.grad(expected, exact, grad.double())
    for one, other in zip(found_grads, expected_grads, strict=True):
        assert relative(one, other, least=1.0) < 5 * TOLERANCE[dtype]


def test_twin_is_group_norm_then_silu_and_passes_gradcheck():
    x = torch.randn(2, 6, 3, 2, dtype=torch.float64, requires_grad=True)
    weight, bias = torch.randn(2, 6, dtype=torch.float64).unbind()
    expected = F.silu(F.group_norm(x, 3, weight, bias))
    assert torch.allclose(group_norm_silu(x, 3, weight, bias), expected)
    assert torch.autograd.gradcheck(lambda t: group_norm_silu_twin(t, 3, weight, bias), x)


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_large_mean_costs_no_precision(kernel, device, channels_last):
    x = torch.randn(1, 4, 9, 13, device=device) + 1e4
    x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
    found = group_norm_silu(x, 2)  # E[x^2] - E[x]^2 would be off by more than the variance
    assert relative(found, group_norm_silu_twin(x.double(), 2)) < 1e-3


def test_views_without_one_stride_are_copied(kernel, device):
    whole = torch.randn(2, 8, 6, 10, device=device)
    for x in (whole[:, :4], whole[..., ::2], whole.transpose(2, 3), whole.transpose(0, 1)):
        assert relative(group_norm_silu(x, 2), group_norm_silu_twin(x, 2)) < 1e-5


def test_vectors_of_any_shape_and_stride(kernel, device):
    x = torch.randn(2, 4, 3, 5, device=device)
    apart = torch.randn(4, 2, 2, device=device)
    vectors = {
        "weight": apart[:, 0, 0],
        "bias": apart[:, :1, 1:],
        "channel_bias": apart[:, 1, 1],
        "shift": torch.randn(4, 2, device=device).T,
    }
    plain = {name: each.flatten() for name, each in vectors.items()}
    for names in (("weight", "bias", "channel_bias"), ("shift",)):
        found = group_norm_silu(x, 2, **{name: vectors[name] for name in names})
        expected = group_norm_silu_twin(x, 2, **{name: plain[name] for name in names})
        assert relative(found, expected) < 1e-5


def test_frames_of_a_video_keep_their_layout(kernel, device):
    video = torch.randn(1, 4, 3, 5, 6, device=device)  # B C T H W, normalised frame by frame
    frames = video.transpose(1, 2).flatten(0, 1)
    found = group_norm_silu(frames, 2)
    assert found.stride() == frames.stride()
    assert relative(found, group_norm_silu_twin(frames, 2)) < 1e-5


def test_nan_stays_in_its_group(kernel, device):
    x = torch.randn(1, 4, 3, 3, device=device)
    x[0, 0, 1, 1] = float("nan")
    found = group_norm_silu(x, 2)
    assert found[:, :2].isnan().all()
    assert not found[:, 2:].isnan().any()


@pytest.mark.parametrize("given", [("weight", "bias", "channel_bias", "residual"), ("scale",)])
def test_second_derivatives_are_the_twins(kernel, device, given):
    x, more = arguments((2, 4, 3, 5), False, torch.float32, given, device)
    answers = []
    for function in (group_norm_silu, group_norm_silu_twin):
        y = function(x, 2, **more).square().sum()
        slopes = torch.autograd.grad(y, (x, *more.values()), create_graph=True)
        penalty = sum(each.square().sum() for each in slopes)
        answers.append(torch.autograd.grad(penalty, (x, *more.values())))
    assert all(relative(one, other) < 1e-4 for one, other in zip(*answers, strict=True))


def test_function_transforms_take_the_twin(kernel, device):
    x = torch.randn(2, 4, 3, 5, device=device)
    slope = torch.func.grad(lambda t: group_norm_silu(t, 2).square().sum())(x)
    expected = torch.func.grad(lambda t: group_norm_silu_twin(t, 2).square().sum())(x)
    assert relative(slope, expected) < 1e-5


@pytest.mark.parametrize("given", [(), ("weight", "bias", "residual", "channel_bias")])
def test_what_is_small_and_learns_is_left_to_torch(kernel, device, monkeypatch, given):
    monkeypatch.setattr(operator, "RECORDING_PAYS", 1 << 22)
    x, more = arguments((2, 4, 3, 5), False, torch.float32, given, device)
    found = group_norm_silu(x, 2, **more)
    assert "FunctionGroupNorm" not in str(found.grad_fn)
    assert relative(found, group_norm_silu_twin(x, 2, **more)) < 1e-5
    rows = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    assert "FunctionGroupNorm" in str(group_norm_silu(rows, 2, **more).grad_fn)
    with torch.autocast(device, torch.bfloat16):
        assert "FunctionGroupNorm" in str(group_norm_silu(x, 2, **more).grad_fn)


def test_empty_inputs_give_empty_results(kernel, device):
    x = torch.randn(0, 4, 3, 3, device=device, requires_grad=True)
    assert torch.autograd.grad(group_norm_silu(x, 2).sum(), x)[0].shape == x.shape


def test_compiles_without_a_graph_break(kernel, device):
    x, more = arguments((1, 4, 3, 5), True, torch.float32, ("weight", "bias"), device)

    def run(x, weight, bias):
        return group_norm_silu(x, 2, weight, bias) * 2

    leaves = (x, *more.values())
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves).square().sum(), leaves)
    expected = torch.autograd.grad(run(*leaves).square().sum(), leaves)
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 1e-5


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor")
VIEWS = {
    "contiguous": lambda t: t[:, :4, :3, :5].contiguous(),
    "channels-last": lambda t: t[:, :4, :3, :5].contiguous(memory_format=torch.channels_last),
    "cut": lambda t: t[:, :4, :3, :5],
    "every second": lambda t: t[:, :4, ::2, ::2],
    "pixels transposed": lambda t: t.transpose(2, 3),
    "samples transposed": lambda t: t.transpose(0, 1),
    "channels behind the rows": lambda t: t.permute(0, 2, 1, 3),
    "one pixel": lambda t: t[:, :, :1, :1],
    "expanded": lambda t: t[:, :, :1, :1].expand(2, 8, 3, 5),
}


@pytest.mark.parametrize("view", VIEWS)
def test_operators_obey_their_contract_whatever_the_strides(kernel, device, view):
    x = VIEWS[view](torch.randn(2, 8, 6, 10, device=device))
    weight, bias = torch.randn(2, x.shape[1], device=device).unbind()
    leaves = [each.requires_grad_() for each in (weight, bias)]
    call = (x, *leaves, None, None, 2, 1e-5, True)
    torch.library.opcheck(torch.ops.pitstop.group_norm_silu.default, call, test_utils=CHECKS)
    y, statistics = torch.ops.pitstop.group_norm_silu.default(*call)
    back = (torch.randn_like(y), x, weight.detach(), bias.detach(), statistics.detach(), 2, True)
    backward = torch.ops.pitstop.group_norm_silu_backward.default
    torch.library.opcheck(backward, back, test_utils=CHECKS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_groups": 4}, "num_groups is 4: pass a divisor of x's 6 channels"),
        ({"x": torch.ones(3)}, "x is .*: pass N x C"),
        ({"x": torch.ones(1, 6, 2).int()}, "x is .* torch.int32: pass .* floating point"),
        ({"weight": torch.ones(5)}, "weight holds 5 values: pass 6"),
        ({"scale": torch.ones(6)}, "scale holds 6 values: pass 12"),
        ({"residual": torch.ones(2, 6, 1)}, r"residual is .*: pass x's \(2, 6, 4\)"),
        ({"bias": torch.ones(6, device="meta")}, "bias is on meta, x on cpu"),
    ],
)
def test_names_the_wrong_argument(change, message):
    with pytest.raises(ValueError, match=message):
        group_norm_silu(**({"x": torch.ones(2, 6, 4), "num_groups": 3} | change))
