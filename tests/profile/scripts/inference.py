"""Neither optimizer nor DataLoader: two models called in turn, compiled or not."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 8)
if "compile" in sys.argv:
    encoder = torch.compile(encoder, backend="aot_eager", fullgraph=True)
with torch.inference_mode():
    for index in range(60):
        picture = decoder(encoder(torch.randn(4, 8)))
        print(picture.sum().item().hex())
if "compile" in sys.argv:
    print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
