"""Rows of ``benchmarks/parts.py`` for tiled VAEs: time, peak memory, error against untiled.

Run ``python benchmarks/parts.py --only tiled``. Stock is diffusers' own tiling, and for the clip
the workload ``tiled_vae`` as found, both in the same run.
"""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from pitstop.core.units import binary_bytes
from pitstop.parts import accelerate_vae
from pitstop.parts.tiled.quality import psnr, seam
from pitstop.parts.tiled.tiled_vae import TiledVae, Tiling
from pitstop.workloads.tiled_vae import tiling as as_found
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae

FLOPS_PER_MS = 790e9  # an H200's bf16 matrix products
TILE = 1024  # pixels: diffusers' tiles for a VAE of this sample size
PICTURES = ((2048, 2.7, 160, 53.0), (4096, 2.8, 650, 212.0))  # side, GiB, target ms, floor ms
CLIP = (2, 136, 240)  # latent frames, height, width: 5 x 1088 x 1920
CLIP_GIB = 4.74
QUALITY_BYTES = 8 * 2**30  # in fp32, about what 2.7 GiB are in bf16 with accelerate_vae
Line = tuple[str, float, float, float, float, str]


def spread_ms(run: Callable[[], Any], rounds: int = 7) -> tuple[float, float, float]:
    """Median, least and most of the times of one call that is waited for."""
    run()
    samples = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        samples.append(float(start.elapsed_time(end)))
    return statistics.median(samples), min(samples), max(samples)


def median_ms(run: Callable[[], Any], rounds: int = 7) -> float:
    """The median alone."""
    return spread_ms(run, rounds)[0]


def peak_bytes(run: Callable[[], Any]) -> int:
    """Peak of one call, with everything that was allocated before."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated()


def tiled_rows(make: Callable[[], Any]) -> Iterator[Line]:
    """Name, ours, ours again, stock, floor and target of every picture size and the clip."""
    torch.manual_seed(0)
    vae = make().cuda()
    vae.tile_sample_min_size, vae.tile_latent_min_size = TILE, TILE // 8
    for line in quality(vae):
        print(line)
    vae.to(torch.bfloat16)
    for side, gib, promised, floor_ms in PICTURES:
        latent = torch.randn(1, 16, side // 8, side // 8, device="cuda", dtype=torch.bfloat16)
        vae.enable_tiling()
        stock_ms = median_ms(partial(vae.decode, latent), 2)
        stock_peak = peak_bytes(partial(vae.decode, latent))
        vae.disable_tiling()
        undo = accelerate_vae(vae)
        tiled = TiledVae(vae, Tiling(budget_bytes=int(gib * 2**30)))
        ours_ms, low_ms, high_ms = spread_ms(partial(tiled.decode, latent))
        peak = peak_bytes(partial(tiled.decode, latent))
        print(f"decode {side}: {ours_ms:.1f} ms ({low_ms:.1f} to {high_ms:.1f}), {tiled.plan}")
        undo()
        name = f"tiled decode {side}, {binary_bytes(peak)} ({binary_bytes(stock_peak)})"
        yield name, ours_ms, ours_ms, stock_ms, floor_ms, f"<= {promised} ms, {gib} GiB"
    for line in budgets(vae):
        print(line)
    del vae
    torch.cuda.empty_cache()
    yield clip_row()


def picture(cells: int, generator: torch.Generator) -> torch.Tensor:
    """A latent with large forms and noise of varying strength, as a photograph has."""
    small = torch.randn(1, 16, 12, 12, generator=generator) * 1.5
    strength = torch.randn(1, 1, 9, 9, generator=generator) * 3
    forms, amount = (
        nn.functional.interpolate(each, size=cells, mode="bicubic") for each in (small, strength)
    )
    noise = torch.randn(1, 16, cells, cells, generator=generator)
    return (forms + noise * amount.sigmoid()).cuda()


def quality(vae: Any) -> Iterator[str]:
    """Error of tiles of one size against untiled, in fp32 at 2048, ours and diffusers'."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(1, 16, 256, 256, generator=generator).cuda()
    choices: dict[str, dict[str, Any]] = {
        "default": {},
        "tiles": {"overlap": 56},  # as far as a border reaches behind the middle block
        "tiles, sample 0": {"overlap": 56, "sample": 0},
    }
    for name, latent in (("noise", noise), ("forms", picture(256, generator))):
        untiled = vae.decode(latent).sample
        vae.enable_tiling()
        stock = psnr(vae.decode(latent).sample, untiled)
        vae.disable_tiling()
        found: list[str] = []
        for label, choice in choices.items():
            limits: dict[str, Any] = {"tile": TILE, "budget_bytes": QUALITY_BYTES, "batch": 1}
            tiled = TiledVae(vae, Tiling(**limits, **choice))
            result = tiled.decode(latent)
            assert tiled.plan is not None
            shows = seam(result, untiled, tiled.plan.grid, 8)
            found.append(f"{label} {psnr(result, untiled):.1f} dB seam {shows:.2f}")
        yield f"fp32 2048 {name}: diffusers {stock:.1f} dB; " + "; ".join(found)


def budgets(vae: Any) -> Iterator[str]:
    """Predicted and true peak at ten budgets."""
    undo = accelerate_vae(vae)
    latent = torch.randn(1, 16, 256, 256, device="cuda", dtype=torch.bfloat16)
    for tenths in (8, 10, 12, 15, 18, 22, 27, 35, 50, 80):
        budget = tenths * 2**30 // 10
        tiled = TiledVae(vae, Tiling(budget_bytes=budget, quiet=True))
        spent_ms = median_ms(partial(tiled.decode, latent), 1)
        plan, peak = tiled.plan, tiled.peak_bytes
        assert plan is not None
        assert peak is not None
        within = "within" if peak <= budget else "OVER"
        yield (
            f"budget {tenths / 10:.1f} GiB: predicted {binary_bytes(plan.predicted_bytes)}, true "
            f"{binary_bytes(peak)} ({within}), {spent_ms:.0f} ms, {plan}"
        )
    undo()


def clip_row() -> Line:
    """Five frames of 1088 x 1920 through the causal VAE of the workload, full size."""
    vae = VideoVae(VaeConfig()).eval().to("cuda", torch.bfloat16)
    latent = torch.randn(1, 16, *CLIP, device="cuda", dtype=torch.bfloat16)
    found = as_found.Tiling(512, 64, "cuda")
    stock_ms = median_ms(lambda: as_found.tiled_decode(vae, latent, found), 2)
    stock_peak = peak_bytes(lambda: as_found.tiled_decode(vae, latent, found))
    untiled = vae.decode(latent)
    stock_db = psnr(as_found.tiled_decode(vae, latent, found), untiled)
    flops = convolution_flops(vae.decoder, lambda: vae.decode(latent))
    accelerate_vae(vae)
    accelerated = vae.decode(latent)
    print(
        f"clip: {flops / 1e12:.0f} TFLOP; against its untiled result, bf16: as found "
        f"{stock_db:.1f} dB; accelerated against stock, both untiled, "
        f"{psnr(accelerated, untiled):.1f} dB, {median_ms(partial(vae.decode, latent), 2):.0f} ms"
    )
    budget = int(CLIP_GIB * 2**30)
    for sample in (0.0, 0.5):
        other = TiledVae(vae, Tiling(budget_bytes=budget, sample=sample))
        spent_ms = median_ms(partial(other.decode, latent), 2)
        quality_db = psnr(other.decode(latent), accelerated)
        print(f"clip, sample {sample}: {quality_db:.1f} dB, {spent_ms:.0f} ms, {other.plan}")
    tiled = TiledVae(vae, Tiling(budget_bytes=budget))
    ours_ms, low_ms, high_ms = spread_ms(partial(tiled.decode, latent))
    quality_db = psnr(tiled.decode(latent), accelerated)
    print(
        f"clip: {ours_ms:.1f} ms ({low_ms:.1f} to {high_ms:.1f}), {quality_db:.1f} dB, {tiled.plan}"
    )
    del untiled, accelerated
    peak = peak_bytes(partial(tiled.decode, latent))
    name = f"tiled clip 5x1088x1920, {binary_bytes(peak)} ({binary_bytes(stock_peak)})"
    floor_ms = flops / FLOPS_PER_MS
    return name, ours_ms, ours_ms, stock_ms, floor_ms, f">= 1.8 x stock, {CLIP_GIB} GiB"


def convolution_flops(module: nn.Module, run: Callable[[], Any]) -> float:
    """Multiplications and additions of all 3-D convolutions in one run."""
    total = 0.0

    def count(layer: Any, _inputs: Any, output: torch.Tensor) -> None:
        nonlocal total
        total += 2.0 * layer.weight.numel() * output.numel() / output.shape[1]

    layers = [each for each in module.modules() if isinstance(each, nn.Conv3d)]
    hooks = [each.register_forward_hook(count) for each in layers]
    run()
    for hook in hooks:
        hook.remove()
    return total
