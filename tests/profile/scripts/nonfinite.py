"""Sixty healthy steps but for one thing that goes wrong at the thirtieth; its line says which."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CASE = sys.argv[1]
BAD = int(sys.argv[2]) if len(sys.argv) > 2 else 30


class Samples(Dataset):
    def __len__(self):
        return 8 * 60

    def __getitem__(self, index):
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        if CASE == "sample" and index == 8 * BAD - 3:
            x[5] = float("nan")
        return x, x.sum(0, keepdim=True) > 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x)  # sample
        if CASE == "inside":
            h = h.sigmoid().log() * (1 if self.step < BAD else float("inf"))  # inside
        return self.head(h), h


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum(1))  # sqrt


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    rate = 0.01
    optimizer = torch.optim.SGD(net.parameters(), rate)
    for step, (x, y) in enumerate(DataLoader(Samples(), batch_size=8), 1):
        net.step = step
        good = step < BAD
        prediction, h = net(x)
        loss = (prediction - y.float()).square().mean()
        if CASE == "log":
            p = prediction.sigmoid() * good
            loss = loss - 0.1 * torch.log(p).mean()  # log
        if CASE == "count":
            mask = y[:, 0] if good else torch.zeros(8)
            total = (prediction[:, 0] * mask).sum()
            loss = loss + total / mask.sum()  # count
        if CASE == "weight":
            frequency = y.float().mean() if good else torch.zeros(())
            weight = 1 / frequency  # weight
            loss = loss * weight.clamp(max=10 if good else None, min=0.01)
        if CASE == "sqrt":
            other = h.detach() + (1 if good else 0)
            loss = loss + distance(h, other).mean()
        if CASE == "rate" and not good:
            optimizer.param_groups[0]["lr"] = 1e9
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


main()
