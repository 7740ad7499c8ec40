"""What slow.py does, in the shape of fast.py: only to run the edits one by one."""

import argparse

from torch import Tensor
from torch.utils.data import DataLoader

from . import data


def stay(tensors: tuple[Tensor, ...], _: str) -> tuple[Tensor, ...]:
    """All training data in main memory."""
    return tuple(each.cpu() for each in tensors)


def validation_loader(
    photographs: data.SevenScenes, args: argparse.Namespace
) -> DataLoader[data.Sample]:
    """Workers that are started anew for every validation."""
    return DataLoader(photographs, batch_size=args.batch_size, num_workers=args.val_num_workers)
