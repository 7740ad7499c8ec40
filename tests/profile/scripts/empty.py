"""A dataset that turns out to hold nothing."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Nothing(Dataset):
    def __len__(self):
        return 0

    def __getitem__(self, index):
        return torch.zeros(1)


if sys.argv[1] == "loop":
    for batch in DataLoader(Nothing(), batch_size=4):
        pass
if sys.argv[1] == "shuffle":
    DataLoader(Nothing(), batch_size=4, shuffle=True)
if sys.argv[1] == "unused":
    loader = DataLoader(Nothing(), batch_size=4)
    print(1 / len(loader))
if sys.argv[1] == "drop":
    for batch in DataLoader([1, 2, 3], batch_size=4, drop_last=True):
        pass
