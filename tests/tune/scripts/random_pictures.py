import random

import torch
from pictures import Pictures, small
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader


class Augmented(Pictures):
    def __getitem__(self, index):
        picture, label = super().__getitem__(index)
        if random.random() < 0.5:
            picture = picture.flip(-1)
        return picture + 0.02 * torch.randn_like(picture), label


def main():
    torch.set_num_threads(1)
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Augmented(), batch_size=4, shuffle=True)
    for epoch in range(30):
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)


if __name__ == "__main__":
    main()
