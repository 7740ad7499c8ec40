"""Train the spike deblurring network, after its pit stop."""

import math
import random
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pitstop.parts import ram_cache, selective_checkpoints

from . import slow
from .data import Array, SpikeDeblurDataset, _augment, prepare, to_voxel
from .faster import faster
from .settings import Settings
from .slow import Batch, parse_arguments, settings_of

FUSED = True  # one kernel for all parameters of the optimizer


class Recordings(SpikeDeblurDataset):
    """The windows of the slow dataset; a voxel that was lost is counted again, never zero."""

    def _read_voxel(self, clip: Path, name: str) -> Array:
        if (clip / "spike_vox" / f"{name}.pt").exists():
            return super()._read_voxel(clip, name)
        packed = np.load(clip / "spike" / f"{name}.npy", allow_pickle=False)
        return to_voxel(np.unpackbits(packed, axis=0).astype(np.bool_), self.bins)


class Frames(Dataset[Array]):
    """Every frame once: blurred RGB, voxels and sharp RGB (3 + bins + 3, H, W)."""

    def __init__(self, recordings: SpikeDeblurDataset) -> None:
        self.recordings = recordings
        self.places = sorted(set(chain.from_iterable(recordings._samples)))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Array:
        clip, name = self.places[index]
        kinds = ("blur", "spike_vox", "sharp")
        return np.concatenate([self.recordings._read(clip, kind, name) for kind in kinds])


class CachedClips(Dataset[Batch]):
    """The same windows, from one block of memory that all workers share."""

    def __init__(self, recordings: SpikeDeblurDataset, crop: int) -> None:
        frames = Frames(recordings)
        if not frames.places:
            raise SystemExit("no clips are long enough: look at the folder and the split's name")
        self.frames, self.crop, self.bins = ram_cache(frames, views=True), crop, recordings.bins
        numbers = {place: number for number, place in enumerate(frames.places)}
        self.windows = [[numbers[place] for place in window] for window in recordings._samples]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Batch:
        """A clip (D, 3 + bins, H, W) and its sharp frames (D, 3, H, W)."""
        both = torch.from_numpy(np.stack([self.frames[number] for number in self.windows[index]]))
        both = _augment(both, self.crop)
        return both[:, : 3 + self.bins].clone(), both[:, 3 + self.bins :].clone()


def train_loader(settings: Settings, root: Path, device: torch.device) -> DataLoader[Batch]:
    """Shuffled training clips from RAM, by workers that stay."""
    train, data = settings.train, settings.data
    bins, crop = settings.model.voxel_bins, data.crop_size
    recordings = Recordings(root, data.train_split, data.clip_len, bins, crop)
    return DataLoader(
        CachedClips(recordings, crop),
        batch_size=train.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=train.num_workers,
        pin_memory=device.type == "cuda",
        persistent_workers=train.num_workers > 0,
    )


class Trainer(slow.Trainer):
    """Waits for the GPU once per optimizer step, and computes twice only what finds no room."""

    def __init__(self, settings: Settings, device: torch.device, out: Path) -> None:
        super().__init__(settings, device, out)
        faster(self.model)
        selective_checkpoints(self.model)
        train = settings.train
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=train.lr, fused=FUSED)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            self.optimizer, T_0=train.steps, eta_min=1e-7
        )

    def micro_batch(self, batch: Batch) -> Tensor:  # type: ignore[override]
        """Forward and backward of one small batch; nobody waits for its loss."""
        clip, sharp = (tensor.to(self.device, non_blocking=True) for tensor in batch)
        with torch.autocast(self.device.type, torch.float16, enabled=self.amp):
            loss = self.loss(self.model(clip), sharp)
        self.scaler.scale(loss / self.settings.train.accumulation_steps).backward()
        self.scheduler.step()
        return loss.detach()

    def log(self, step: int, loss: float, elapsed: float) -> None:
        """The step's line; a loss that is not finite ends the run."""
        loss = float(loss)
        super().log(step, loss, elapsed)
        if not math.isfinite(loss):
            raise SystemExit(f"the loss of step {step} is {loss}: see pitstop run --guard")


def main(argv: list[str] | None = None) -> None:
    """Prepare the data, train, validate before and after, save."""
    arguments = parse_arguments(argv)
    settings = settings_of(arguments)
    random.seed(arguments.seed)
    np.random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    root = prepare(arguments.small, arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    held_out = slow.val_loader(settings, root)
    loader = train_loader(settings, root, device)
    trainer = Trainer(settings, device, arguments.out)
    trainer.validate(held_out, 0)
    trainer.fit(loader, held_out)
    steps, train = settings.train.steps, settings.train
    quality = trainer.validate(held_out, steps)
    trainer.save("last.pth")
    trainer.writer.close()
    done = f"[done] steps={steps} batch={train.batch_size * train.accumulation_steps}"
    done += f" psnr={quality:.2f}"
    if device.type == "cuda":
        done += f" peak_mem={torch.cuda.max_memory_allocated() >> 20}MiB"
    print(done)


if __name__ == "__main__":
    main()
