"""Inference over a DataLoader, with another loader inside the dataset."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Nested(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        parts = DataLoader(TensorDataset(torch.full((4, 8), float(index))), batch_size=2)
        return torch.cat([part for (part,) in parts])


torch.manual_seed(0)
model = nn.Linear(8, 2)
with torch.no_grad():
    for batch in DataLoader(Nested(), batch_size=2):
        print(model(batch).sum().item().hex())
