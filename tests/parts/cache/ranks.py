"""Two ranks with a RAM cache and four workers each; run by torchrun."""

import sys

import psutil
import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset

from pitstop.parts import ram_cache


class Clips(Dataset):
    reads = 0

    def __len__(self):
        return 32

    def __getitem__(self, index):
        Clips.reads += 1
        return torch.full((1 << 20,), index, dtype=torch.uint8)


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    cache = ram_cache(Clips(), workers=0)
    loader = DataLoader(cache, batch_size=4, num_workers=4, persistent_workers=True)
    assert sum(len(batch) for batch in loader) == 32
    own = psutil.Process()
    shares = [
        each.pss
        for process in (own, *own.children())
        for each in process.memory_maps()
        if "pitstop-ram-cache" in each.path
    ]
    total = torch.tensor(float(sum(shares)))
    distributed.all_reduce(total)
    sys.stdout.write(f"rank{distributed.get_rank()}:reads-{Clips.reads}\n")
    if distributed.get_rank() == 0 and 0.9 < total / cache.held_bytes < 1.1:
        sys.stdout.write("share-ok\n")
    distributed.barrier()
    distributed.destroy_process_group()
