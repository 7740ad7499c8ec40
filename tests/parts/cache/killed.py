"""A training with a RAM cache and workers that goes on for ever; says who they are."""

import sys

import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from pitstop.parts import ram_cache


class Clips(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((1 << 20,), index, dtype=torch.uint8)


if __name__ == "__main__":
    loader = DataLoader(
        ram_cache(Clips(), workers=0), batch_size=4, num_workers=2, persistent_workers=True
    )
    assert sum(len(batch) for batch in loader) == 32
    pids = [psutil.Process().pid, *(each.pid for each in psutil.Process().children())]
    sys.stdout.write(f"{' '.join(map(str, pids))}\n")
    sys.stdout.flush()
    while True:
        list(loader)
