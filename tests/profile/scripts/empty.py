"""A dataset that turns out to hold nothing."""

from contextlib import suppress

import torch
from torch.utils.data import DataLoader, Dataset


class Nothing(Dataset):
    def __len__(self):
        return 0

    def __getitem__(self, index):
        return torch.zeros(1)


for batch in DataLoader(Nothing(), batch_size=4):
    pass
for batch in DataLoader([1, 2, 3], batch_size=4, drop_last=True):
    pass
loader = DataLoader(Nothing(), batch_size=4)
with suppress(ZeroDivisionError):
    print(1 / len(loader))
DataLoader(Nothing(), batch_size=4, shuffle=True)  # which torch refuses
