"""No optimizer and no DataLoader: weights are moved by hand, and the model is saved whole."""

import copy
import io

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x):
        return self.net(x)


torch.manual_seed(0)
model = Model()
for step in range(100):
    loss = model(torch.randn(8, 4)).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for each in model.parameters():
            each -= 0.01 * each.grad
    print(loss.item().hex())
    if step % 20 == 19:
        with torch.no_grad():
            print(model(torch.ones(3, 4)).sum().item().hex())
torch.save(model, io.BytesIO())
print(copy.deepcopy(model)(torch.ones(1, 4)).item().hex())
print(torch.jit.script(model)(torch.ones(1, 4)).item().hex())
