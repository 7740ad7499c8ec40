"""Two optimizers in turn; the gradients of the second overflow at first, and its scaler skips."""

import sys

import torch
from torch import nn


def learn(loss, optimizer, scaler):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


torch.manual_seed(0)
fused = sys.argv[1] == "fused"
critic, network = nn.Linear(4, 1), nn.Linear(4, 4)
optimizers = [torch.optim.Adam(each.parameters(), fused=fused) for each in (critic, network)]
scalers = [torch.amp.GradScaler("cpu", init_scale=scale) for scale in (1024.0, 2.0**127)]
for _ in range(24):
    made = network(torch.randn(8, 4))
    learn(critic(made.detach()).square().mean(), optimizers[0], scalers[0])
    loss = 256 * critic(made).square().mean()
    learn(loss, optimizers[1], scalers[1])
    print(loss.item().hex(), scalers[1].get_scale())
