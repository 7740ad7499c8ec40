"""A compiled function that is compiled again for a new number, and that prints."""

import torch
from torch import nn


@torch.compile(backend="eager")
def scale(x, factor):
    y = x.sin() * factor
    print("a graph ends here")
    return y.cos()


@torch.compile(backend="eager", fullgraph=True)
def clip(parameters):
    return nn.utils.clip_grad_norm_(parameters, 1.0)


torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(12):
    optimizer.zero_grad()
    scale(model(torch.ones(2, 4)), min(step, 2)).sum().backward()
    try:
        print(clip(list(model.parameters())).item().hex())
    except torch._dynamo.exc.Unsupported:
        print("torch 2.6 cannot compile this whole")
    optimizer.step()
counters = torch._dynamo.utils.counters
print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
