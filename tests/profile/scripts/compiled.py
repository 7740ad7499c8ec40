"""torch.compile with fullgraph=True; prints what Dynamo counted."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randn(96, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for x, y in loader:
    optimizer.zero_grad()
    loss = ((compiled(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
counters = torch._dynamo.utils.counters
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]), dict(counters["frames"]))
