"""Decode latents with diffusers' AutoencoderKL, as scripts do: what ``pitstop tune`` is shown.

    pitstop tune benchmarks/vae_decode.py [--small] [--batches 400] [--dtype bf16|fp32]

FLUX-shaped with random weights; the latents of 1024 x 1024 pictures are read from files.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import torch
from diffusers import AutoencoderKL
from torch.utils.data import DataLoader, Dataset

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Latents(Dataset[torch.Tensor]):
    """One file for each picture."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.pt"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        latent: torch.Tensor = torch.load(self.files[index], weights_only=True)
        return latent


def write_latents(folder: Path, side: int, number: int) -> None:
    """Noise, which a decoder takes as long for as for a picture."""
    for index in range(number):
        torch.save(torch.randn(16, side, side), folder / f"{index:03}.pt")


def endless(loader: DataLoader[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Batches, epoch after epoch."""
    while True:
        yield from loader


def main() -> None:
    """Decode picture after picture, and print the time of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a size for two CPU cores")
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    vae = AutoencoderKL(
        block_out_channels=(16, 32) if arguments.small else (128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * (2 if arguments.small else 4),
        up_block_types=("UpDecoderBlock2D",) * (2 if arguments.small else 4),
        latent_channels=16,
        layers_per_block=2,
        norm_num_groups=8 if arguments.small else 32,
    )
    vae = vae.to(device, DTYPES[arguments.dtype]).eval()
    with tempfile.TemporaryDirectory() as folder:
        write_latents(Path(folder), 32 if arguments.small else 128, 16)
        batches = endless(DataLoader(Latents(Path(folder)), batch_size=1))
        times = []
        for number in range(arguments.batches):
            begun = time.perf_counter()
            latent = next(batches).to(device, vae.dtype)
            with torch.no_grad():
                picture = vae.decode(latent).sample
            brightness = picture.float().mean().item()
            times.append(1e3 * (time.perf_counter() - begun))
            print(f"picture {number} mean={brightness:.5f} time={times[-1]:.1f}ms")
    print(f"median {median(times[3:]):.1f} ms")


if __name__ == "__main__":
    main()
