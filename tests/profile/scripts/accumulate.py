"""Gradient accumulation over four batches, with a gradient scaler and autocast."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(192, 16), torch.randn(192, 1)), batch_size=4)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cpu")
for index, (x, y) in enumerate(loader, 1):
    with torch.autocast("cpu", torch.bfloat16):
        loss = ((model(x) - y).float() ** 2).mean() / 4
    scaler.scale(loss).backward()
    if index % 4 == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(loss.item().hex())
