"""Gradient accumulation as accelerate does it."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 4)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for (batch,) in loader:
    with accelerator.accumulate(model):
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item().hex())
