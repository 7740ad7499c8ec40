"""The data: photographs of a room with their poses, in the layout of the 7-Scenes dataset.

camera.json                       size and focal length
gaussians.npz                     the room, as splatting would have reconstructed it
TrainSplit.txt, TestSplit.txt     which sequences are for what
seq-01/frame-000000.color.png     a photograph
seq-01/frame-000000.pose.txt      its pose, camera to world, 4x4
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from pitstop.workloads.cache import dataset
from pitstop.workloads.scenes import Scene, to_bytes

from .room import build_room, walk
from .splat import Camera, Gaussians, render

VERSION = 1
SEED = 4
WALLPAPER = 192  # pixels per side of the picture on each surface
NOISE = 0.015  # of the camera's sensor, standard deviation
VIGNETTE = 0.25  # share of the light lost in the corners

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]

Sample = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Layout:
    """How much data there is."""

    name: str
    camera: Camera
    gaussians: int
    train_frames: tuple[int, ...]  # per sequence
    test_frames: tuple[int, ...]


FULL = Layout("pose_regression-full", Camera(240, 427, 360.0), 150_000, (100, 100, 100), (60,))
SMALL = Layout("pose_regression-small", Camera(96, 128, 100.0), 8_000, (24, 24), (16,))


def prepare(layout: Layout, root: Path | None, device: str) -> Path:
    """The folder of the dataset, generated on ``device`` if it is not there yet."""
    items = sum(layout.train_frames + layout.test_frames)
    return dataset(layout.name, VERSION, partial(_build, layout, device), items, root)


def _build(layout: Layout, device: str, folder: Path) -> Iterator[None]:
    room = build_room(layout.gaussians, _wallpaper, SEED)
    room.save(folder / "gaussians.npz")
    (folder / "camera.json").write_text(json.dumps(asdict(layout.camera)))
    room = room.to(device)
    number = 0
    for split, frames, variations in _walks(layout):
        numbers = range(number + 1, number + 1 + len(frames))
        (folder / f"{split}Split.txt").write_text("".join(f"sequence{n}\n" for n in numbers))
        for number, count, variation in zip(numbers, frames, variations, strict=True):
            poses = walk(variation, count)
            yield from _film(room, layout.camera, poses, number, folder / f"seq-{number:02d}")


def _walks(layout: Layout) -> Iterator[tuple[str, tuple[int, ...], list[float]]]:
    """Each split with its frames per sequence, and how each sequence walks the room."""
    train, test = len(layout.train_frames), len(layout.test_frames)
    yield "Train", layout.train_frames, [index / (train - 1) for index in range(train)]
    yield "Test", layout.test_frames, [(index + 0.35) / test for index in range(test)]


def _film(
    room: Gaussians, camera: Camera, poses: NDArray[np.float64], number: int, folder: Path
) -> Iterator[None]:
    """Photograph one walk through the room."""
    folder.mkdir()
    draw = np.random.default_rng([SEED, number])
    for index, pose in enumerate(poses):
        picture = render(room, camera, torch.from_numpy(pose)).permute(1, 2, 0).cpu().numpy()
        exposure = 1 + 0.15 * np.sin(0.4 * index + number)
        photograph = Image.fromarray(to_bytes(_expose(picture * exposure, draw)))
        photograph.save(folder / f"frame-{index:06d}.color.png")
        np.savetxt(folder / f"frame-{index:06d}.pose.txt", pose)
        yield


def _expose(picture: NDArray[np.float32], draw: np.random.Generator) -> NDArray[np.float32]:
    """What the lens and the sensor make of a perfect picture (H, W, 3)."""
    height, width = picture.shape[:2]
    y, x = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)
    light = 1 - VIGNETTE * (x * x + y * y) / 2
    noisy = picture * light[..., None] + draw.normal(0, NOISE, picture.shape)
    return noisy.astype(np.float32)


def _wallpaper(surface: int) -> NDArray[np.float32]:
    return Scene(1000 * SEED + surface, WALLPAPER, WALLPAPER).frame(0)


def load_camera(folder: Path) -> Camera:
    """The camera that took the photographs."""
    return Camera(**json.loads((folder / "camera.json").read_text()))


class SevenScenes(Dataset[Sample]):
    """Photographs (3, H, W) of one split, normalised, each with its pose (12,)."""

    def __init__(self, folder: Path, train: bool, skip: int = 1) -> None:
        split = (folder / f"{'Train' if train else 'Test'}Split.txt").read_text().split()
        numbers = [int(name.removeprefix("sequence")) for name in split]
        paths = [path for n in numbers for path in sorted(folder.glob(f"seq-{n:02d}/*.color.png"))]
        self.paths = paths[::skip]
        names = [str(path).replace("color.png", "pose.txt") for path in self.paths]
        self.poses = np.stack([np.loadtxt(name)[:3].reshape(12) for name in names])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        picture = np.asarray(Image.open(self.paths[index]).convert("RGB"))
        image = torch.from_numpy(picture.copy()).permute(2, 0, 1).float() / 255  # (3, H, W)
        return (image - MEAN) / STD, torch.from_numpy(self.poses[index])
