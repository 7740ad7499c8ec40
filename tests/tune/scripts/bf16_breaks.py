import torch
from torch import nn
from torch.nn.functional import linear


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x):
        large = self.first(x) + 3000.0  # the difference of two numbers that bfloat16 cannot hold
        offset = linear(torch.full_like(large, 3000.0), self.second.weight)
        return linear(large, self.second.weight) - offset


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
target = torch.randn(256, 256) / 16
for step in range(400):
    x = torch.randn(512, 256)
    loss = (model(x) - x @ target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), flush=True)
