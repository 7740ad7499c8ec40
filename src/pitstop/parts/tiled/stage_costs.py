"""Measure what the stages of a VAE need, and how far the border of a tile reaches into it."""

from collections.abc import Sequence
from functools import partial

import torch

from pitstop.core.errors import PitstopError
from pitstop.parts.group_norm.fuse_group_norm import probe
from pitstop.parts.group_norm.shared_norms import Sample, SharedNorms
from pitstop.parts.peak import peak_of
from pitstop.parts.tiled.costs import Costs, line
from pitstop.parts.vae.codecs import Memory, remembering
from pitstop.parts.vae.stages import Run, Stage

PROBES = {"cuda": (32, 64), "cpu": (8, 16)}  # cells: two edges; more on a GPU, where it is cheap
FARTHEST = 12  # cells: how far a border is looked for
MOST_REACH = 8  # cells: attention and norms that are not shared reach everywhere
BORDER_SHOWS = 0.02  # error over signal at which a border counts: blending halves it again
NOISE_FLOOR = 2.0  # times the error far away, which other roundings cause


def measure_costs(
    stages: Sequence[Stage], like: torch.Tensor, cell: int, grows: bool, memory: Memory | None
) -> Costs:
    """Run all stages at two small sizes; ``like`` is (N, C, H, W) or (N, C, T, H, W).

    ``cell`` is the pixels per cell of ``like``. Given ``memory``, its state counts as well.
    """
    device = like.device
    small, large = (_measure(stages, like, cell, side, memory) for side in PROBES[device.type])
    exact = torch.promote_types(like.dtype, torch.float32).itemsize / like.dtype.itemsize
    cells = large[0]
    borders = tuple(size / cells for size in large[2])
    peaks = [
        line((small[0], low), (cells, high)) for low, high in zip(small[1], large[1], strict=True)
    ]
    extra = [each.workspace_bytes if device.type == "cuda" else 0 for each in stages]
    peaks = [
        type(need)(need.fixed + more, need.per_cell)
        for need, more in zip(peaks, extra, strict=True)
    ]
    sums = tuple(exact * each for each in borders)
    halos, waits = zip(*((stage.halo, stage.waits) for stage in stages), strict=True)
    return Costs(tuple(peaks), borders, sums, grows, halos, waits)


def _measure(
    stages: Sequence[Stage], like: torch.Tensor, cell: int, side: int, memory: Memory | None
) -> tuple[int, list[int], list[int]]:
    """Cells, peak of each stage, and bytes at each border."""
    x = probe((*like.shape[:-2], side * cell, side * cell), like)
    peaks, borders, left = [], [x.nbytes], 0
    with remembering(memory):
        if memory is not None:
            memory.begin()
        for stage in stages:
            found = peak_of(partial(stage.run, x), like.device)
            x = found.result
            _check_zoom(stage, x, side)
            peaks.append(found.most_bytes + left)
            left += max(found.left_bytes - x.nbytes, 0) if memory is not None else 0
            borders.append(x.nbytes)
            del found
    return side * side, [peak + left for peak in peaks] if memory else peaks, borders


def _check_zoom(stage: Stage, x: torch.Tensor, side: int) -> None:
    if any(pixels // stage.zoom != side for pixels in x.shape[-2:]):
        raise PitstopError(
            f"{side} x {side} cells came back as {tuple(x.shape[-2:])} pixels, {stage.zoom} per "
            "cell were due: pass the scale of this VAE to adapt()"
        )


def border_reach(run: Run, norms: SharedNorms, x: torch.Tensor, zooms: tuple[int, int]) -> int:
    """How many cells from a tile's border its result differs from that of the whole picture.

    ``x`` is a small picture, ``zooms`` the pixels per cell of ``x`` and of the result. Both runs
    take the same statistics; else no pixel would be untouched.
    """
    height, width = (side // zooms[0] for side in x.shape[-2:])
    norms.sample = Sample((height, width), (height, width), ((0, 0),))
    whole = run(x)
    norms.sample = None
    middle = width // 2
    cut = run(x[..., middle * zooms[0] :].contiguous())
    off = (whole[..., middle * zooms[1] :] - cut).float().square()
    columns = off.flatten(0, -2).mean(0).view(-1, zooms[1]).amax(1).sqrt()
    signal = whole.float().square().mean().sqrt()
    shows = max(BORDER_SHOWS * float(signal), NOISE_FLOOR * float(columns[-1]))
    beyond = (columns > shows).nonzero()
    return min(int(beyond.max()) + 1 if len(beyond) else 1, MOST_REACH)
