"""Reading samples from files, from a RAM cache, and as views of it: µs a sample and the ratio.

    python benchmarks/ram_cache.py [--samples 300] [--side 256] [--rounds 7]

PNG triplets, as frame interpolation reads them. Rounds alternate; the middle one counts, with the
range of all. The floor is one copy of the sample's bytes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from pitstop.parts import ram_cache


class Triplets(Dataset[torch.Tensor]):
    """Three pictures a sample, decoded each time."""

    def __init__(self, folder: Path, samples: int, side: int) -> None:
        self.folder, self.samples = folder, samples
        numbers = np.random.default_rng(0)
        coarse = numbers.integers(0, 255, (3 * samples, side // 8, side // 8, 3), dtype=np.uint8)
        for index, field in enumerate(coarse):
            Image.fromarray(field).resize((side, side)).save(folder / f"{index}.png")

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> torch.Tensor:
        pictures = [Image.open(self.folder / f"{3 * index + each}.png") for each in range(3)]
        return torch.stack([torch.from_numpy(np.array(each)) for each in pictures])


def seconds(read: Callable[[int], Any], samples: int) -> float:
    """Reading every sample once."""
    begun = time.perf_counter()
    for index in range(samples):
        read(index)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)  # as in a worker
    with tempfile.TemporaryDirectory() as folder:
        files = Triplets(Path(folder), asked.samples, asked.side)
        begun = time.perf_counter()
        cache = ram_cache(files)
        filled_s = time.perf_counter() - begun
        views = ram_cache(files, views=True)
        plain = [cache[index] for index in range(asked.samples)]
        ways = {
            "files": files.__getitem__,
            "cache": cache.__getitem__,
            "views": views.__getitem__,
            "floor: a copy": lambda index: plain[index].clone(),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked.rounds):
            for name, read in ways.items():
                times[name].append(seconds(read, asked.samples) / asked.samples * 1e6)
    print(f"{cache!r} filled in {filled_s:.2f} s")
    for name, found in times.items():
        ratio = median(times["files"]) / median(found)
        spread = f"({min(found):.1f} to {max(found):.1f})"
        print(f"{name:14} {median(found):8.1f} µs {spread:22} {ratio:6.1f}x")


if __name__ == "__main__":
    main()
