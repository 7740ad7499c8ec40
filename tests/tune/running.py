"""Run a small script in a process of its own with changes applied, and read what it answers."""

import sys
from dataclasses import dataclass
from pathlib import Path

from pitstop.profile.start import launch
from pitstop.profile.start.options import Options
from pitstop.tune.plan import BEGIN, Outcome, Plan, Wanted, read_outcomes

TRAINS = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(8, 8, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
    def forward(self, x):
        return x + self.dropout(torch.relu(self.convolution(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.tail = nn.Linear(8, 1)
    def forward(self, x):
        x = self.head(x)
        for block in self.blocks:
            x = self.run(block, x)
        return self.tail(x.mean((2, 3)))
    def run(self, block, x):
        return block(x)

def train(model, optimizer=None, epochs=2, loader=None, clip=None):
    data = TensorDataset(torch.randn(16, 3, 8, 8), torch.randn(16, 1))
    loader = loader or DataLoader(data, batch_size=4, shuffle=True)
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            if clip:
                print("norm", torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
            optimizer.step()
            print(loss.item())
    return optimizer

torch.manual_seed(0)
"""
TRAIN = f"{TRAINS}\ntrain(Model())\n"
CHECKPOINTS = TRAIN.replace("block(x)", "checkpoint(block, x, use_reentrant=True)")


@dataclass(frozen=True)
class Ran:
    """What the process left behind."""

    code: int
    printed: list[str]
    complained: str
    outcomes: list[Outcome]
    folder: Path

    @property
    def outcome(self) -> Outcome:
        (only,) = self.outcomes
        return only

    @property
    def numbers(self) -> list[float]:
        return [float(line) for line in self.printed if line[:1] in "-0123456789"]


def run(folder, source, *changes, record=True, steps=None, environment=None, **plan):
    """Run ``source`` with changes, each a name or a name and options, as a trial does."""
    here = folder / f"run{len(list(folder.iterdir()))}"
    here.mkdir()
    (here / "script.py").write_text(source)
    wanted = tuple(Wanted(each) if isinstance(each, str) else Wanted(*each) for each in changes)
    argument = Plan(folder=str(here), changes=wanted, **plan).to_json()
    options = Options(
        folder=str(here), inspect=0, steps=steps, also=((BEGIN, argument),), record=record
    )
    with (here / "out").open("wb") as out, (here / "err").open("wb") as err:
        code = launch.run([sys.executable, str(here / "script.py")], options, (out, err))
    printed, complained = ((here / name).read_text() for name in ("out", "err"))
    return Ran(code, printed.splitlines(), complained, read_outcomes(here), here)
