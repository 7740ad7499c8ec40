"""LBFGS: forward and backward run inside optimizer.step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
x, y = torch.randn(32, 8), torch.randn(32, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)


def closure():
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    return loss


for _ in range(15):
    print(optimizer.step(closure).item().hex())
