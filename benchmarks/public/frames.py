"""Synthetic film: textures that move, with the grain of a photograph, written once as PNG files."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SPEED = 6  # pixels a frame, down and to the right
GRAIN = 6.0  # of 255: a PNG of such a frame is about as large as one of a photograph
CELLS = ((5, 100), (40, 60), (160, 40))  # sizes of forms, across the picture, and their contrast

Pixels = NDArray[np.float32]


class Film:
    """One scene; a frame is the window of it that the camera sees at that time."""

    def __init__(self, seed: int, height: int, width: int, frames: int) -> None:
        random = np.random.default_rng(seed)
        self.height, self.width = height, width
        shape = (height + SPEED * (frames + 1), width + SPEED * (frames + 1), 3)
        self.scene = random.normal(128, GRAIN, shape).astype(np.float32)
        for cells, contrast in CELLS:
            forms = random.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
            smooth = Image.fromarray(forms).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
            self.scene += (np.asarray(smooth, dtype=np.float32) / 255 - 0.5) * contrast

    def frame(self, time: float) -> Pixels:
        """What a short exposure sees."""
        start = round((time + 0.5) * SPEED)
        return self.scene[start : start + self.height, start : start + self.width]

    def blurred(self, time: float) -> Pixels:
        """What an exposure of a whole frame sees."""
        parts = [self.frame(time + part / SPEED) for part in (-2, -1, 0, 1, 2)]
        mean: Pixels = np.stack(parts).mean(axis=0, dtype=np.float32)
        return mean


def save(picture: Pixels, path: Path) -> None:
    """Write a PNG, as fast as PNG can be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = picture.clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, compress_level=1)


def written_once(name: str, write: Callable[[Path], None]) -> Path:
    """The folder that ``write`` fills, kept in the system's temporary folder for the next run."""
    folder = Path(tempfile.gettempdir()) / "public-benchmarks" / name
    if not folder.is_dir():
        print(f"writing {folder}")
        partial = folder.with_name(f"{name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        write(partial)
        partial.rename(folder)
    return folder
