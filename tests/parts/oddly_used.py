"""A model for tests: convolution, group norm, attention that is written out, and oddities."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 8)
        self.act = nn.SiLU()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        h = self.conv(self.act(self.norm(x)))
        q, k, v = self.qkv(h.flatten(2).transpose(1, 2)).chunk(3, 2)
        scores = q @ k.transpose(-2, -1) * 0.35
        h = scores.softmax(-1) @ v
        return x + h.transpose(1, 2).view_as(x)


class Net(nn.Module):
    """``oddity`` is called with the model and what lies between its blocks."""

    def __init__(self, oddity):
        super().__init__()
        self.oddity = oddity
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        h = self.first(x)
        for number, block in enumerate(self.blocks):
            h = block(h)
            if number == 1:
                h = self.oddity(self, h)
        return h.mean((2, 3))


def nothing(model, h):
    return h


def decides(model, h):
    """Control flow on numbers: other operations, other depth."""
    if h.mean() > 0:
        return torch.tanh(h)
    while h.abs().amax() > 1:
        h = h * 0.5
    return model.blocks[0](h)


def prints(model, h):
    print(f"{float(h.detach().mean()):.5f}")  # noqa: T201
    return h


def counts(model, h):
    model.calls = getattr(model, "calls", 0) + 1
    return h * (1 + model.calls % 3)
