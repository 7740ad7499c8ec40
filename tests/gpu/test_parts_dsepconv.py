# mypy: disable-error-code="arg-type,call-arg,no-untyped-def,no-untyped-call"
import pytest
import torch

from pitstop.parts.dsepconv import dsepconv, dsepconv_twin

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def tensors(samples, channels, height, width, size, dtype=torch.float32, reach=20.0):
    planes = [(channels, size - 1), (size, 0), (size, 0), *[(size * size, 0)] * 3]
    made = [
        torch.randn(samples, count, height + more, width + more, device="cuda")
        for count, more in planes
    ]
    made[3] *= reach
    made[4] *= reach
    return [each.to(dtype).requires_grad_() for each in made]


def relative(found, expected):
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(10, 3, 256, 256, 5), (1, 3, 123, 457, 5), (2, 20, 33, 31, 3)])
def test_equals_twin_with_large_offsets(shape, dtype):
    made = tensors(*shape, dtype)
    exact = [each.detach().float().requires_grad_() for each in made]
    found, expected = dsepconv(*made), dsepconv_twin(*exact)
    limit = {torch.float32: 5e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    assert relative(found, expected) < limit
    grad = torch.randn_like(found)
    pairs = (
        torch.autograd.grad(found, made, grad),
        torch.autograd.grad(expected, exact, grad.float()),
    )
    for one, other in zip(*pairs, strict=True):
        assert relative(one, other) < limit


def test_is_reproducible_where_it_says_so():
    made = tensors(2, 3, 65, 67, 5)
    grad = torch.randn(2, 3, 65, 67, device="cuda")
    torch.use_deterministic_algorithms(True)
    try:
        one, other = (torch.autograd.grad(dsepconv(*made), made, grad) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_other_streams_and_compile():
    made = tensors(1, 3, 65, 67, 5)
    expected = dsepconv_twin(*made)
    with torch.cuda.stream(torch.cuda.Stream()):
        found = dsepconv(*made)
        torch.cuda.current_stream().synchronize()
    assert relative(found, expected) < 5e-6
    compiled = torch.compile(lambda *inputs: dsepconv(*inputs) * 2, fullgraph=True)
    grads = torch.autograd.grad(compiled(*made).sum(), made[1:])
    wanted = torch.autograd.grad((expected * 2).sum(), made[1:])
    assert all(relative(a, b) < 5e-6 for a, b in zip(grads, wanted, strict=True))


def test_an_address_off_the_usual_alignment():
    made = tensors(1, 3, 33, 31, 3)
    expected = dsepconv(*made)
    shifted = []
    for each in made:
        room = torch.empty(each.numel() + 1, device="cuda")[1:].view_as(each)  # 4 bytes further
        shifted.append(room.copy_(each.detach()).requires_grad_())
    assert torch.equal(dsepconv(*shifted), expected)
    assert torch.equal(dsepconv(*made), expected)


def test_second_derivatives_are_the_twins():
    made = tensors(1, 3, 9, 7, 3, reach=1.0)
    answers = []
    for function in (dsepconv, dsepconv_twin):
        (slope,) = torch.autograd.grad(function(*made).square().sum(), made[1], create_graph=True)
        answers.append(torch.autograd.grad(slope.square().sum(), made))
    assert all(relative(a, b) < 1e-5 for a, b in zip(*answers, strict=True))
