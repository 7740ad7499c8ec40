"""A plain loop: three epochs, validation in between, a checkpoint at the end of each."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    context = sys.argv[2] if len(sys.argv) > 2 else None
    data = TensorDataset(torch.randn(64, 16), torch.randn(64, 1))
    held_out = TensorDataset(torch.randn(16, 16), torch.randn(16, 1))
    loader = DataLoader(
        data, batch_size=8, shuffle=True, num_workers=workers, multiprocessing_context=context
    )
    validation = DataLoader(held_out, batch_size=8)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        with torch.no_grad():
            print("val", sum(((model(x) - y) ** 2).mean().item() for x, y in validation).hex())
        torch.save(model.state_dict(), "plain.pt")
    print(torch.rand(1).item().hex())


if __name__ == "__main__":
    main()
