"""Triplets of moving scenes on disk, laid out like Vimeo-90k, and the dataset that reads them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from pitstop.workloads.cache import dataset
from pitstop.workloads.scenes import Scene, to_bytes

VERSION = 1
TRAIN_LIST, TEST_LIST = "tri_trainlist.txt", "tri_testlist.txt"
FILES = ("im1.png", "im2.png", "im3.png")

Frame = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How much to generate, and how fast things move from one frame to the next."""

    name: str
    height: int
    width: int
    train: int
    test: int
    speed: float  # in frame heights per frame


SMALL = Recipe("frame_interpolation-small", height=96, width=168, train=56, test=8, speed=0.012)
FULL = Recipe("frame_interpolation-full", height=256, width=448, train=120, test=20, speed=0.02)


def build_triplets(recipe: Recipe, root: Path | None) -> Path:
    """The folder of the triplets, generated on the first call."""

    def build(folder: Path) -> Iterator[None]:
        names = [f"{index // 100 + 1:05d}/{index % 100 + 1:04d}" for index in range(count)]
        (folder / TRAIN_LIST).write_text("\n".join(names[: recipe.train]) + "\n")
        (folder / TEST_LIST).write_text("\n".join(names[recipe.train :]) + "\n")
        for seed, name in enumerate(names):
            write_triplet(folder / "sequences" / name, seed, recipe)
            yield

    count = recipe.train + recipe.test
    return dataset(recipe.name, VERSION, build, count, root)


def write_triplet(folder: Path, seed: int, recipe: Recipe) -> None:
    """Three frames of one scene, one time unit apart."""
    folder.mkdir(parents=True)
    scene = Scene(seed, recipe.height, recipe.width, recipe.speed)
    for time, file in enumerate(FILES):
        Image.fromarray(to_bytes(scene.frame(float(time)))).save(folder / file)


class Vimeo90kTriplet(torch.utils.data.Dataset[dict[str, Frame]]):
    """Three frames each, cropped; for training also flipped and played backwards."""

    def __init__(self, folder: Path, train: bool, crop_size: tuple[int, int]) -> None:
        names = (folder / (TRAIN_LIST if train else TEST_LIST)).read_text().split()
        self.paths = [folder / "sequences" / name for name in names]
        self.train = train
        self.crop_size = crop_size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict[str, Frame]:
        images = [Image.open(self.paths[index] / file).convert("RGB") for file in FILES]
        images = self.crop(images)  # pit: decode-then-crop
        if self.train:
            images = flip(images)
            images = images[::-1] if random.random() < 0.5 else images
        previous, middle, following = (np.array(image, np.float32) for image in images)
        return {
            "image": middle / 127.5 - 1.0,
            "prev_frame": previous / 127.5 - 1.0,
            "next_frame": following / 127.5 - 1.0,
        }

    def crop(self, images: list[Image.Image]) -> list[Image.Image]:
        """The same window of each: random for training, the centre otherwise."""
        height, width = self.crop_size
        spare_x, spare_y = images[0].width - width, images[0].height - height
        left = random.randint(0, spare_x) if self.train else spare_x // 2
        top = random.randint(0, spare_y) if self.train else spare_y // 2
        return [image.crop((left, top, left + width, top + height)) for image in images]


def flip(images: list[Image.Image]) -> list[Image.Image]:
    """All mirrored or none, along each axis with even odds."""
    for axis in (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM):
        if random.random() < 0.5:
            images = [image.transpose(axis) for image in images]
    return images
