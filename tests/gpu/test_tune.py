"""`pitstop tune` on an NVIDIA GPU: whole searches, each of some minutes at most."""

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from pitstop.core import store
from pitstop.core.report import Report
from pitstop.tune.tuned import read_tuned

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")

MINUTES = "6"  # at most: a search ends when all is clear, and a slow disk must not end it before
PREPARE = """
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"  # to be tried without a GPU as well
torch.manual_seed(0)
"""
TRAIN = """
for step in range(600):
    optimizer.zero_grad()
    loss = loss_of(model(x))
    loss.backward()
    optimizer.step()
    if step % 50 == 0:  # else the script runs ahead of the GPU, as most do
        print(step, loss.item(), flush=True)
"""
PRODUCTS = f"""{PREPARE}
width, batch = (4096, 2048) if device == "cuda" else (64, 32)
layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
x, y = torch.randn(2, batch, width, device=device)
loss_of = lambda result: (result - y).square().mean()
{TRAIN}"""
SMALL = f"""{PREPARE}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(16, 16, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(16, 1, 1))
    def forward(self, x):
        y = self.convolution(x)
        return x + self.scale * torch.tanh(y * torch.sigmoid(y) + 0.1 * y.abs().clamp(max=3) - 0.1)

model = nn.Sequential(*[Block() for _ in range(16)]).to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-4)
x = torch.randn(4, 16, 32, 32, device=device)
loss_of = lambda result: (result - x.flip(0)).square().mean()
{TRAIN}"""
BREAKS = f"""{PREPARE}
model = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid()).to(device)
nn.init.constant_(model[0].bias, 9.0)  # 1 - sigmoid(9) is 1e-4, and nothing in bfloat16
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x = 0.1 * torch.randn(256, 64, device=device)
loss_of = lambda result: -torch.log(1 - result).mean()
{TRAIN}"""
SCRIPTS = {"products": PRODUCTS, "small": SMALL, "breaks": BREAKS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("gpu")


def pitstop(here, *words):
    command = [sys.executable, "-m", "pitstop", *words]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)


@cache
def tuned(folder, name, changes):
    """The folder of a search that came to its end, and its report."""
    here = folder / name
    here.mkdir()
    (here / "train.py").write_text(SCRIPTS[name])
    options = ["--only", changes, "--budget", MINUTES, "--steps", "20", "--output", "report.json"]
    ran = pitstop(here, "tune", *options, "train.py")
    assert ran.returncode == 0, ran.stderr
    return here, store.load(here / "report.json", Report)


def verdicts(report):
    return {trial.change: trial.verdict for trial in report.trials}


def test_tf32_is_kept_where_matrix_products_take_the_step(folder):
    here, report = tuned(folder, "products", "tf32")
    assert verdicts(report) == {"tf32": "kept"}
    assert [each.name for each in read_tuned(here / "tuned.toml")] == ["tf32"]
    proof = tomllib.loads((here / "tuned.toml").read_text())["proof"]
    assert (proof["metric"], proof["verdict"]) == ("step", "better")


def test_what_was_kept_is_run_in_earnest(folder):
    here, _ = tuned(folder, "products", "tf32")
    ran = pitstop(here, "run", "--with", "tuned.toml", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert "pitstop:" not in ran.stderr  # as it says of a change that does not take hold
    assert len(ran.stdout.splitlines()) == 12


def test_every_change_has_its_verdict_where_kernels_are_small(folder):
    _, report = tuned(folder, "small", "compile,fused-optimizer")
    found = verdicts(report)
    assert set(found) == {
        "fused-optimizer",
        "compile scope=whole",
        "compile scope=blocks",
        "compile scope=inside-checkpoints",
    }
    assert found["compile scope=inside-checkpoints"] == "not-applicable"
    assert not {"failed", "out-of-memory", "drifted"} & set(found.values()), report.trials


def test_bf16_that_breaks_the_loss_is_not_kept(folder):
    here, report = tuned(folder, "breaks", "bf16")
    (trial,) = report.trials
    assert (trial.verdict, trial.note) == ("drifted", "the loss of step 1 is not finite")
    assert not (here / "tuned.toml").exists()
