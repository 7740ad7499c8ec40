"""The clips: PNG sequences on disk, read whole for inference and as random crops for training."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from pitstop.workloads.cache import dataset
from pitstop.workloads.scenes import Scene, to_bytes

VERSION = 2
FRAMES = 10  # per clip on disk: two windows of five, or one of nine
SPEED = 0.01  # of the frame height per frame

# folder below the dataset's root -> (clips, height, width)
SMALL_FOLDERS = {"train": (16, 128, 192), "test/64x112": (4, 64, 112)}
FULL_FOLDERS = {
    "train": (2, 720, 1280),
    "test/720x1280": (4, 720, 1280),
    "test/1088x1920": (2, 1088, 1920),
}

Folders = dict[str, tuple[int, int, int]]


def clips_folder(small: bool, root: Path | None = None) -> Path:
    """The dataset of one size, generated on first use."""
    folders = SMALL_FOLDERS if small else FULL_FOLDERS
    frames = FRAMES * sum(clips for clips, _, _ in folders.values())
    name = "tiled_vae-small" if small else "tiled_vae-full"
    return dataset(name, VERSION, partial(_write_clips, folders), frames, root)


def clips_at_least(small: bool, height: int, width: int) -> str | None:
    """The test clips with the smallest pictures that hold ``height`` x ``width``, if any do."""
    folders = SMALL_FOLDERS if small else FULL_FOLDERS
    for name, (_, tall, wide) in folders.items():
        if name.startswith("test/") and height <= tall and width <= wide:
            return name
    return None


def _write_clips(folders: Folders, root: Path) -> Iterator[None]:
    seeds = count()
    with ThreadPoolExecutor() as pool:
        for name, (clips, height, width) in folders.items():
            for index in range(clips):
                folder = root / name / f"clip_{index:02d}"
                folder.mkdir(parents=True)
                scene = Scene(next(seeds), height, width, SPEED)
                for _ in pool.map(partial(_write_frame, scene, folder), range(FRAMES)):
                    yield


def _write_frame(scene: Scene, folder: Path, time: int) -> None:
    picture = Image.fromarray(to_bytes(scene.frame(time)))
    picture.save(folder / f"{time:05d}.png", compress_level=3)


def read_frame(path: Path) -> Tensor:
    """One picture as (3, H, W) in -1 to 1."""
    with Image.open(path) as picture:
        pixels = np.asarray(picture, np.float32)
    return torch.from_numpy(pixels).permute(2, 0, 1) / 127.5 - 1


def write_frames(clip: Tensor, folder: Path) -> None:
    """Save (3, T, H, W) in -1 to 1 as numbered pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = ((clip.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0)
    for index, frame in enumerate(pixels.cpu().numpy()):
        Image.fromarray(frame).save(folder / f"{index:05d}.png", compress_level=1)


class ClipWindows(Dataset[tuple[Tensor, str]]):
    """Consecutive windows of every clip, centre-cropped, with a name for each."""

    def __init__(self, folder: Path, frames: int, height: int, width: int) -> None:
        self.height, self.width = height, width
        self.windows: list[list[Path]] = []
        for clip in sorted(folder.iterdir()):
            paths = sorted(clip.glob("*.png"))
            last = len(paths) - frames
            self.windows += [paths[start : start + frames] for start in range(0, last + 1, frames)]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        paths = self.windows[index]
        clip = torch.stack([read_frame(path) for path in paths], dim=1)  # (3, T, H, W)
        top, left = (clip.shape[2] - self.height) // 2, (clip.shape[3] - self.width) // 2
        name = f"{paths[0].parent.name}_{paths[0].stem}"
        return clip[:, :, top : top + self.height, left : left + self.width], name


class RandomCrops(Dataset[Tensor]):
    """A square crop at a random place and time of every clip, ``repeats`` times over."""

    def __init__(self, folder: Path, frames: int, crop: int, repeats: int = 8) -> None:
        self.frames, self.crop = frames, crop
        self.clips = [sorted(clip.glob("*.png")) for clip in sorted(folder.iterdir())] * repeats

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Tensor:
        paths = self.clips[index]
        start = int(torch.randint(len(paths) - self.frames + 1, ()))
        window = paths[start : start + self.frames]
        clip = torch.stack([read_frame(path) for path in window], dim=1)  # (3, T, H, W)
        top = int(torch.randint(clip.shape[2] - self.crop + 1, ()))
        left = int(torch.randint(clip.shape[3] - self.crop + 1, ()))
        return clip[:, :, top : top + self.crop, left : left + self.crop]  # pit: crop-after-decode
