"""Channels side by side in memory, in real scripts."""

import pytest

pytest.importorskip("torch")

from tune.running import TRAIN, run

pytestmark = pytest.mark.slow  # real processes by the dozen: `make test-slow`

WITHOUT_DROPOUT = TRAIN.replace("Dropout(0.1)", "Dropout(0.0)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_channels_last_rounds_and_says_that_dropout_falls_elsewhere(folder):
    before = run(folder, WITHOUT_DROPOUT).numbers
    watched = "\nModel.forward = watch\ntrain(Model())\n"
    watch = """
forward = Model.forward
def watch(self, x):
    assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    assert self.head.weight.stride()[1] == 1
    return forward(self, x)
"""
    source = WITHOUT_DROPOUT.replace("\ntrain(Model())\n", watch + watched)
    ran = run(folder, source, "channels-last")
    assert ran.code == 0, ran.complained
    assert ran.outcome.applied == 4
    assert ran.numbers == pytest.approx(before, rel=1e-4)
    assert ran.outcome.effect == ""
    assert run(folder, TRAIN, "channels-last").outcome.effect == "other-randomness"


IN_BETWEEN = {
    "other-randomness": ("x = self.head(x)", "x = self.head(x)\n        x = x + NOISE"),
    "": ("self.tail(x.mean((2, 3)))", "self.tail((y := x.mean((2, 3))) + NOISE.mean() * y)"),
}


@pytest.mark.parametrize("noise", ["randn_like(x)", "rand_like(input=x)", "randint_like(x, 9)"])
@pytest.mark.parametrize("effect", IN_BETWEEN)
def test_channels_last_says_that_noise_falls_elsewhere(folder, noise, effect):
    """As between the halves of a variational autoencoder; that of vectors falls where it did."""
    old, new = IN_BETWEEN[effect]
    new = new.replace("NOISE", f"torch.{noise if effect else noise.replace('x', 'y')}")
    ran = run(folder, WITHOUT_DROPOUT.replace(old, new), "channels-last")
    assert ran.code == 0, ran.complained
    assert ran.outcome.effect == effect


def test_a_computed_weight_is_laid_out_where_it_comes_from(folder):
    """To read it would go on with the power iteration of spectral_norm."""
    source = """
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
torch.manual_seed(0)
model = nn.Sequential(spectral_norm(nn.Conv2d(3, 8, 3)), spectral_norm(nn.Conv2d(8, 8, 3)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(4):
    loss = model(torch.randn(2, 3, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
    ran = run(folder, source, "channels-last")
    assert ran.outcome.applied == 2
    assert ran.numbers == pytest.approx(run(folder, source).numbers, rel=1e-5)
    assert ran.complained == ""


def test_clips_are_laid_out_as_well(folder):
    source = """
import torch
model = torch.nn.Conv3d(3, 8, 3)
clip = torch.randn(1, 3, 8, 8, 8)
def look(_, given):
    print(given[0]["clip"].stride()[1], model.weight.stride()[1])
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, batch):
        look(None, (batch,))
        return self.inner(batch["clip"])
Outer()({"clip": clip})
"""
    assert run(folder, source, "channels-last").printed == ["1 1"]
