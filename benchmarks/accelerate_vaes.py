"""Prints what ``accelerate_vae`` gains on VAEs of four kinds, and that it slows none of them.

    python benchmarks/accelerate_vaes.py [--only AutoencoderDC] [--small]

Random weights in bf16, widths of the published ones. Stock is timed before and after.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import diffusers
import torch

from pitstop.parts import accelerate_vae

KINDS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {  # by name: config, latent
    "AutoencoderKL": (
        {
            "block_out_channels": (128, 256, 512, 512),
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
            "latent_channels": 4,
            "layers_per_block": 2,
        },
        (1, 4, 64, 64),
    ),
    "AutoencoderDC": (
        {
            "latent_channels": 32,
            "encoder_block_out_channels": (128, 256, 512, 512, 1024, 1024),
            "decoder_block_out_channels": (128, 256, 512, 512, 1024, 1024),
            "encoder_block_types": ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
            "decoder_block_types": ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
            "encoder_layers_per_block": (2, 2, 2, 3, 3, 3),
            "decoder_layers_per_block": (3, 3, 3, 3, 3, 3),
            "encoder_qkv_multiscales": ((), (), (), (5,), (5,), (5,)),
            "decoder_qkv_multiscales": ((), (), (), (5,), (5,), (5,)),
        },
        (1, 32, 16, 16),
    ),
    "AutoencoderKLLTXVideo": ({}, (1, 128, 2, 16, 16)),
    "AutoencoderKLWan": ({}, (1, 16, 2, 32, 32)),
}
SMALL: dict[str, dict[str, Any]] = {
    "AutoencoderKL": {"block_out_channels": (8, 8, 8, 8), "norm_num_groups": 4},
    "AutoencoderKLWan": {"base_dim": 8},
}
RUNS = 10  # of each, after a first one; the fastest counts


def main() -> None:
    """Print the record of each VAE, and both times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--small", action="store_true", help="what a CPU can do, of two kinds")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    for name in [options.only] if options.only else list(SMALL if options.small else KINDS):
        config, latent_shape = KINDS[name]
        torch.manual_seed(0)
        given = config | (SMALL[name] if options.small else {})
        vae = getattr(diffusers, name)(**given).eval().to(device, dtype)
        latent = torch.randn(latent_shape, device=device, dtype=dtype)
        show(name, vae, latent, options.small)


def show(name: str, vae: Any, latent: torch.Tensor, timed_by_latent: bool) -> None:
    """Stock against accelerated, and how far their pictures are apart."""

    @torch.no_grad()
    def decode() -> torch.Tensor:
        torch.manual_seed(0)  # some decoders draw noise
        picture: torch.Tensor = vae.decode(latent, return_dict=False)[0]
        return picture

    expected, stock_ms = decode(), milliseconds(decode)
    began = time.perf_counter()
    undo = accelerate_vae(vae, measure=decode if timed_by_latent else None)
    took_s = time.perf_counter() - began
    error = (decode() - expected).norm() / expected.norm()
    fast_ms = milliseconds(decode)
    undo()
    stock_ms = min(stock_ms, milliseconds(decode))
    ratio = stock_ms / fast_ms
    print(f"{name} {tuple(latent.shape)}: {stock_ms:.2f} to {fast_ms:.2f} ms, {ratio:.2f}x")
    print(f"  tried in {took_s:.1f} s, relative error {error:.1e}")
    print("  " + str(undo).replace("\n", "\n  "), flush=True)


def milliseconds(run: Callable[[], object]) -> float:
    """The fastest of some runs."""
    times = []
    for _ in range(1 + RUNS):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return min(times[1:])


if __name__ == "__main__":
    main()
