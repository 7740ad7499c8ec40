import os

import torch
from pictures import Pictures, small
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    if os.path.exists("last.pt"):
        state = torch.load("last.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        print("resumed", flush=True)
    for epoch in range(30):
        for x, y in DataLoader(Pictures(), batch_size=4):
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, "last.pt")
        print(epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
