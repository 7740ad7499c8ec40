"""Crops of pictures in a real DataLoader, by ``fast_decode`` and by decoding whole pictures.

    python benchmarks/fast_decode.py [--pictures 16] [--rounds 7] [--workers 1]

Random crops of PNG and JPEG files, and ``size`` for a training at 224. Rounds alternate within one
process. Milliseconds a sample are the middle of the rounds, with their range; the ratio is the
middle of the pairs' ratios. ``dB`` is the PSNR between both, where they differ.
"""

import argparse
import functools
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from pitstop.parts.fast_decode import fast_decode, fast_decode_twin

CASES = (  # picture, crop, size, kind
    ((2040, 1356), 256, None, "png"),
    ((2040, 1356), 256, None, "jpg"),
    ((1280, 720), 256, None, "png"),
    ((1280, 720), 256, None, "jpg"),
    ((448, 256), 256, None, "png"),
    ((448, 256), 192, None, "jpg"),
    ((2040, 1356), 1024, 224, "jpg"),
    ((1280, 720), 640, 224, "jpg"),
    ((500, 375), 300, 224, "jpg"),
    ((500, 375), 375, None, "jpg"),
)


class Crops(Dataset[torch.Tensor]):
    """The same random crops for both ways."""

    def __init__(self, paths: list[Path], crop: int, size: int | None, decode: Any) -> None:
        self.paths, self.crop, self.decode = paths, crop, decode
        self.size = (size, size) if size else None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        box = functools.partial(within, index, self.crop)
        return torch.from_numpy(self.decode(self.paths[index], box, self.size))


def within(index: int, side: int, width: int, height: int) -> tuple[int, int, int, int]:
    """A random crop."""
    numbers = random.Random(index)
    left, top = numbers.randint(0, width - side), numbers.randint(0, height - side)
    return left, top, left + side, top + side


def write(folder: Path, size: tuple[int, int], kind: str, pictures: int) -> list[Path]:
    """Pictures with hills, edges and some noise."""
    numbers = np.random.default_rng(0)
    paths = [folder / f"{index}.{kind}" for index in range(pictures)]
    for path in paths:
        coarse = numbers.integers(0, 255, (size[1] // 24, size[0] // 24, 3), dtype=np.uint8)
        hills = np.asarray(Image.fromarray(coarse).resize(size)).astype(int)
        noisy = hills + numbers.normal(0, 3, hills.shape)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


def epoch(loader: Any) -> float:
    """Milliseconds a sample; the workers are there already."""
    begun = time.perf_counter()
    samples = sum(len(batch) for batch in loader)
    return (time.perf_counter() - begun) * 1e3 / samples


def alike(ours: Any, whole: Any) -> str:
    """Equal, or by how much they differ."""
    pairs = [(ours[at].float(), whole[at].float()) for at in range(min(8, len(ours)))]
    error = float(np.mean([(a - b).square().mean().item() for a, b in pairs]))
    return "equal" if not error else f"{10 * np.log10(255**2 / error):.1f} dB"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pictures", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    print("picture    kind crop  size   whole ms           ours ms            ratio  numbers")
    for picture, crop, size, kind in CASES:
        with tempfile.TemporaryDirectory() as folder:
            paths = write(Path(folder), picture, kind, asked.pictures)
            ways = [Crops(paths, crop, size, way) for way in (fast_decode_twin, fast_decode)]
            options = {"num_workers": asked.workers, "persistent_workers": asked.workers > 0}
            loaders = [DataLoader(way, batch_size=4, **options) for way in ways]
            for loader in loaders:
                epoch(loader)
            rounds = [(epoch(loaders[0]), epoch(loaders[1])) for _ in range(asked.rounds)]
            numbers = alike(ways[1], ways[0])
        whole, ours = zip(*rounds, strict=True)
        ratio = median(a / b for a, b in rounds)
        shown = [f"{median(each):6.2f} ({min(each):.1f}-{max(each):.1f})" for each in (whole, ours)]
        print(
            f"{picture[0]}x{picture[1]:<5} {kind} {crop:5} {size or '-':>5}  "
            f"{shown[0]:18} {shown[1]:18} {ratio:5.2f}x  {numbers}",
            flush=True,
        )


if __name__ == "__main__":
    main()
