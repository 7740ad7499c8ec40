import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(60))

    def forward(self, x):
        for layer in self.layers:
            h = layer(x)
            x = x + 0.1 * torch.tanh(h * torch.sigmoid(h) + h.abs().sqrt().clamp(max=3) - 0.5)
        return x


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(2000):
    x = torch.randn(8, 16)
    loss = (model(x) - x.flip(0)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item(), flush=True)
