import torch
from torch import nn


@torch.library.custom_op("mine::double", mutates_args=())  # a compiler needs a fake of it too
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_autograd(lambda _, gradient: gradient * 2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(40))

    def forward(self, x):
        x = double(x)
        for layer in self.layers:
            x = x + 0.1 * torch.tanh(layer(x))
        return x


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(2000):
    x = torch.randn(16, 64)
    loss = (model(x) - x.flip(0)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item(), flush=True)
