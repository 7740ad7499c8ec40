"""Latents are cached and read into memory before the training; a loader only validates."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
encoder = nn.Conv2d(3, 4, 3).requires_grad_(False)
with torch.no_grad():
    latents = torch.cat([encoder(torch.randn(1, 3, 8, 8)) for _ in range(40)])  # prepares
memory = [batch for (batch,) in DataLoader(TensorDataset(latents), batch_size=2)]
held_out = DataLoader(TensorDataset(latents), batch_size=4)
model = nn.Conv2d(4, 4, 3)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(4):
    for batch in memory[:10]:
        optimizer.zero_grad()
        loss = model(batch).square().mean()  # trains
        loss.backward()
        optimizer.step()
        print("step", loss.item().hex(), flush=True)
    with torch.no_grad():
        print("validated", sum(model(batch).mean().item() for (batch,) in held_out))
