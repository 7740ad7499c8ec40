"""Made: random data that stands in for public datasets, in their formats and sizes."""

import struct
from pathlib import Path

import numpy as np
from PIL import Image

DIGITS = {"train": 2048, "t10k": 256}  # of MNIST, which has 60,000 and 10,000
PICTURES = 60  # of a folder


def mnist(folder: Path) -> None:
    """Digits in the raw files that torchvision unpacks."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for split, count in DIGITS.items():
        pictures = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = random.integers(0, 10, count, dtype=np.uint8)
        images = raw / f"{split}-images-idx3-ubyte"
        images.write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pictures.tobytes())
        classes = raw / f"{split}-labels-idx1-ubyte"
        classes.write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def photographs(folder: Path) -> None:
    """Pictures of 480 x 320 with the grain of a photograph."""
    _pictures(folder, (320, 480, 3), "RGB")


def masks(folder: Path) -> None:
    """Black and white masks of the same size and names."""
    _pictures(folder, (320, 480), "L", levels=2)


def _pictures(folder: Path, shape: tuple[int, ...], mode: str, levels: int = 256) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for number in range(PICTURES):
        coarse = random.integers(0, levels, (shape[0] // 8, shape[1] // 8, *shape[2:]), np.uint8)
        picture = Image.fromarray(coarse * (255 // (levels - 1)), mode).resize(
            (shape[1], shape[0]), Image.Resampling.NEAREST
        )
        picture.save(folder / f"{number:03}.png", compress_level=1)


MADE = {"mnist": mnist, "photographs": photographs, "masks": masks}
