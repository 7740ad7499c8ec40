"""A loader whose time goes into decoding, in the script itself or in its workers."""

import sys
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NOISE = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
PACKED = zlib.compress(NOISE.numpy().tobytes())


class Packed(Dataset):
    def __len__(self):
        return 4 * 60

    def __getitem__(self, index):
        return self.decode(index)

    def decode(self, index):
        for _ in range(3):
            data = zlib.decompress(PACKED)  # decode
        return torch.frombuffer(bytearray(data), dtype=torch.float32)[index : index + 64]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    workers = int(sys.argv[1])
    context = sys.argv[2] if workers else None
    loader = DataLoader(
        Packed(), batch_size=4, num_workers=workers, multiprocessing_context=context
    )
    net = nn.Linear(64, 1)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for x in loader:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
