# mypy: disable-error-code="arg-type,no-untyped-def,no-untyped-call"
"""Side by side with LDMVFI's own CuPy kernel: set PITSTOP_LDMVFI to a checkout of it."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

from pitstop.parts import dsepconv

ORIGINAL = Path(os.environ.get("PITSTOP_LDMVFI", "")) / "cupy_module" / "dsepconv.py"
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not ORIGINAL.is_file(), reason="PITSTOP_LDMVFI names no LDMVFI checkout"),
]
NAMES = ("output", "vertical", "horizontal", "offset_x", "offset_y", "mask")
LIMIT = 1e-5  # relative to the largest value; the sums of 25 taps round in another order


@pytest.fixture(scope="module")
def original():
    """The original module, unmodified."""
    pytest.importorskip("cupy")
    spec = importlib.util.spec_from_file_location("ldmvfi_dsepconv", ORIGINAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors(samples, channels, height, width, size, reach):
    planes = [(channels, size - 1), (size, 0), (size, 0), *[(size * size, 0)] * 3]
    torch.manual_seed(0)
    made = [
        torch.randn(samples, count, height + more, width + more, device="cuda")
        for count, more in planes
    ]
    made[3] *= reach
    made[4] *= reach
    return [made[0], *(each.requires_grad_() for each in made[1:])]


@pytest.mark.parametrize("reach", [0.0, 1.0, 20.0, 500.0])
@pytest.mark.parametrize(
    "shape",
    [(10, 3, 256, 256, 5), (1, 3, 123, 457, 5), (2, 3, 33, 31, 4), (1, 3, 7, 5, 3)],
    ids=str,
)
def test_equals_the_original_forward_and_backward(original, shape, reach):
    made = tensors(*shape, reach)
    answers = []
    for module in (original, dsepconv):
        output = module.FunctionDSepconv(*made)
        torch.manual_seed(1)
        grads = torch.autograd.grad(output, made[1:], torch.randn_like(output))
        answers.append((output.detach(), *grads))
    for name, one, other in zip(NAMES, *answers, strict=True):
        assert float((one - other).abs().max() / one.abs().max()) < LIMIT, name


def test_whole_positions_and_the_border_itself(original):
    made = [each.detach() for each in tensors(1, 3, 9, 11, 5, 0.0)]
    for offset in (-30.0, -4.0, -1.0, -0.5, 0.5, 1.0, 3.0, 30.0):  # floor and clamp meet here
        for each in made[3:5]:
            each.fill_(offset)
        wanted, found = (module.ModuleDSepconv()(*made) for module in (original, dsepconv))
        assert float((wanted - found).abs().max() / wanted.abs().max()) < LIMIT, offset
