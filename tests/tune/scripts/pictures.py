import glob

import numpy
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset


class Pictures(Dataset):
    def __init__(self):
        self.files = sorted(glob.glob("pictures/*.png"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        picture = Image.open(self.files[index]).convert("RGB").resize((64, 64), Image.LANCZOS)
        return torch.from_numpy(numpy.asarray(picture).copy()).permute(2, 0, 1) / 255, index % 10


def small():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
