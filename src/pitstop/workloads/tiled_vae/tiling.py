"""Encode and decode a clip in overlapping tiles that fade into each other."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .model import VideoVae


@dataclass(frozen=True, slots=True)
class Tiling:
    """Edge and overlap of a tile in pixels, and where finished tiles are gathered."""

    size: int = 512
    overlap: int = 64
    offload_device: str = "cpu"


def tiled_encode(vae: VideoVae, clip: Tensor, tiling: Tiling) -> Tensor:
    """The latent of ``clip`` (B, 3, T, H, W), one tile after the other."""
    return _over_tiles(vae.encode, clip, tiling, vae.spatial_scale, (vae.spatial_scale, 1))


def tiled_decode(vae: VideoVae, latent: Tensor, tiling: Tiling) -> Tensor:
    """The clip that ``latent`` stands for, one tile after the other."""
    return _over_tiles(vae.decode, latent, tiling, vae.spatial_scale, (1, vae.spatial_scale))


def seam_lines(length: int, tiling: Tiling) -> list[int]:
    """Pixel positions along one edge of the clip where a tile starts or ends inside it."""
    starts = range(
        tiling.size - tiling.overlap, length - tiling.overlap, tiling.size - tiling.overlap
    )
    return [line for start in starts for line in (start, start + tiling.overlap)]


def _over_tiles(
    network: Callable[[Tensor], Tensor],
    source: Tensor,
    tiling: Tiling,
    scale: int,
    zoom: tuple[int, int],
) -> Tensor:
    """Blend ``network`` of every tile; ``zoom`` is pixels per latent cell, in and out."""
    zoom_in, zoom_out = zoom
    rows, columns = source.shape[3] // zoom_in, source.shape[4] // zoom_in
    size, overlap = tiling.size // scale, tiling.overlap // scale
    if rows <= size and columns <= size:
        return network(source)
    stride = size - overlap
    result = count = torch.empty(0)
    for top in range(0, rows, stride):
        bottom = min(top + size, rows)
        for left in range(0, columns, stride):
            right = min(left + size, columns)
            if (top > 0 and bottom - top <= overlap) or (left > 0 and right - left <= overlap):
                continue  # earlier tiles cover it
            y, x = slice(top * zoom_in, bottom * zoom_in), slice(left * zoom_in, right * zoom_in)
            tile = network(source[:, :, :, y, x].contiguous())  # pit: one-tile
            if top == left == 0:
                shape = (*tile.shape[:3], rows * zoom_out, columns * zoom_out)
                result = torch.zeros(shape, dtype=tile.dtype, device=tiling.offload_device)
                count = torch.zeros_like(result[:1, :1, :1])

            steps = torch.linspace(0, 1, overlap * zoom_out, device=tile.device)  # pit: ramp
            ramp = 0.5 - 0.5 * torch.cos(steps * torch.pi)
            fade_y = _fade(tile.shape[3], ramp, top > 0, bottom < rows).to(tile.dtype)
            fade_x = _fade(tile.shape[4], ramp, left > 0, right < columns).to(tile.dtype)
            weight = fade_y[:, None] * fade_x
            tile.mul_(weight)

            tile = tile.to(tiling.offload_device)  # pit: offload
            weight = weight.to(tiling.offload_device)
            y = slice(top * zoom_out, bottom * zoom_out)
            x = slice(left * zoom_out, right * zoom_out)
            result[:, :, :, y, x] += tile  # pit: blend
            count[:, :, :, y, x] += weight
            torch.cuda.empty_cache()  # pit: empty-cache

    if str(result.device) != "cuda":  # pit: device-string
        result, count = result.to(source.device), count.to(source.device)
    return result.div_(count.clamp(min=1e-6))


def _fade(length: int, ramp: Tensor, at_start: bool, at_end: bool) -> Tensor:
    """Weights along one edge of a tile: 1, with a ramp where another tile takes over."""
    fade = torch.ones(length, device=ramp.device)
    if at_start:
        fade[: len(ramp)] = ramp
    if at_end:
        fade[-len(ramp) :] = 1 - ramp
    return fade
