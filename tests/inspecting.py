"""Small scripts whose steps are inspected."""

LOOP = """
import gc
import torch
from torch import nn
torch.manual_seed(0)
BEFORE
def train():
    for step in range(8):
        x = torch.randn(4, 8)
        STEP
train()
"""
TRAINING = """
model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 1e-3)
"""
UPDATE = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ends()
"""
