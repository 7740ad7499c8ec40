"""What slow.py does, in the shape of fast.py: only to run the edits one by one."""

from typing import Any

from torch.utils.data import DataLoader

from .data import StyleDataset
from .slow import FluxTrainer


def keep_encoders(*_: object) -> None:
    """Nothing is encoded ahead."""


def loader(trainer: FluxTrainer, pictures: StyleDataset) -> DataLoader[Any]:
    """Batches by workers, from latents on the CPU."""
    return DataLoader(
        pictures,
        batch_size=trainer.config.train_batch_size,
        shuffle=True,
        num_workers=trainer.config.num_workers,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )
