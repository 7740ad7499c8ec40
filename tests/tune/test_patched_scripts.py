"""Scripts that were patched and run without us give the numbers that were proved."""

import subprocess
import sys

import pytest

from pitstop.compare.record import record
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import Wanted
from tune.running import run

FUNCTIONS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 3, 8, 8), torch.randn(32, 4, 8, 8))
    loader = DataLoader(data, batch_size=2)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        loss = (out - y).square().mean() + (out @ out.transpose(2, 3)).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    main()
"""
OBJECT = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 32)
        self.tail = nn.Linear(32, 8)

    def body(self, x):
        return torch.relu(self.head(x))

    def forward(self, x):
        return self.tail(checkpoint(self.body, x, use_reentrant=False))


class Trainer:
    def __init__(self):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)

    def loss(self, x):
        return (self.model(x) @ x.T - 1).square().mean()

    def train(self):
        for _ in range(12):
            loss = self.loss(torch.randn(4, 8))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(loss.item())


torch.manual_seed(0)
Trainer().train()
"""


DECODES = """\
import torch
from diffusers import AutoencoderKL

torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(8, 16),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=4,
)
vae = vae.to(torch.float32).eval()
with torch.no_grad():
    for _ in range(12):
        picture = vae.decode(torch.randn(1, 4, 16, 16)).sample
        print(picture.double().square().sum().item())
"""


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        pytest.param(DECODES, ["channels-last"], marks=pytest.mark.slow),
        (FUNCTIONS, ["bf16", "channels-last", "fused-optimizer", ("loader", {"workers": 1})]),
        pytest.param(
            OBJECT, ["bf16", "checkpointing-off", "fused-optimizer"], marks=pytest.mark.slow
        ),
    ],
    ids=["decodes", "functions", "object"],
)
def test_patched_source_gives_the_numbers_that_were_proved(tmp_path, monkeypatch, text, changes):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text(text)
    words = [sys.executable, str(folder / "train.py")]
    (evidence,) = record(words, tmp_path / "recording", warmup=1, inspect=1).evidences
    (tmp_path / "trials").mkdir()
    proved = run(tmp_path / "trials", text, *changes)
    assert not any(each.declined for each in proved.outcomes)
    wanted = tuple(Wanted(each) if isinstance(each, str) else Wanted(*each) for each in changes)
    patch = make_patch(wanted, evidence, words, folder)
    assert len(patch.placed) == len(changes)
    assert not patch.unplaced
    subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=folder, check=True)
    after = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert [float(each) for each in after] == proved.numbers
    assert evidence.steps[-1].loss != pytest.approx(proved.numbers[-1], rel=1e-6)
