import torch
from pictures import Pictures, small
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = small()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for epoch in range(30):
        for x, y in DataLoader(Pictures(), batch_size=4):
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
