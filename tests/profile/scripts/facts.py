"""Two loaders on one dataset, a loader and an optimizer of the user's own, AMP, clipping."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.randn(3, 8 + index // 20), {"name": "clip", "mask": torch.zeros(2)}


class OwnLoader(DataLoader):
    def __init__(self, dataset, **options):
        super().__init__(dataset, **options)


class OwnSGD(torch.optim.SGD):
    def __init__(self, parameters, rate):
        super().__init__(parameters, lr=rate, foreach=False)


torch.manual_seed(0)
clips = Clips()
train = OwnLoader(clips, batch_size=4)
check = DataLoader(clips, batch_size=10, num_workers=1)
model = nn.Linear(1, 1)
optimizer = OwnSGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for epoch in range(2):
    for clip, _ in train:
        optimizer.zero_grad()
        loss = model(clip.reshape(-1, 1)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(loss.item().hex(), norm.item().hex(), scaler.get_scale())
    with torch.no_grad():
        print(sum(model(clip.reshape(-1, 1)).sum().item() for clip, _ in check).hex())
