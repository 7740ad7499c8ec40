"""What tiling did to a picture: how far it is from the untiled one, and whether seams show."""

import torch

from pitstop.parts.tiled.tiles import Grid

ROUNDING = 1e-12  # of the mean square: below this there is no error to speak of


def psnr(tiled: torch.Tensor, untiled: torch.Tensor) -> float:
    """Peak signal-to-noise ratio in decibels; the peak is the range of the untiled picture."""
    exact = untiled.double()
    span = exact.max() - exact.min()
    error = (tiled.double() - exact).square().mean()
    return float(10 * (span.square() / error.clamp_min(ROUNDING * span.square())).log10())


def seam(tiled: torch.Tensor, untiled: torch.Tensor, grid: Grid, scale: int) -> float:
    """Change of the error across overlaps over its change elsewhere: 1 means no seam shows.

    Both over the same distance, from one side of an overlap to the other: a blended step is a step.
    """
    error = tiled.double() - untiled.double()
    across, elsewhere = [], []
    for axis, dim in ((grid.rows, -2), (grid.columns, -1)):
        lines = error.transpose(dim, 0).flatten(1)
        overlaps = [(after * scale, (start + axis.tile) * scale) for start, after in axis.pairs]
        for first, last in overlaps:
            distance = last - first + 1
            jumps = (lines[distance:] - lines[:-distance]).abs().mean(1)
            others = torch.ones(len(jumps), dtype=torch.bool, device=jumps.device)
            for begin, end in overlaps:
                others[max(begin - distance, 0) : end] = False
            across.append(jumps[first - 1 : first])
            elsewhere.append(jumps[others] if others.any() else jumps)
    usual, found = (torch.cat(each or [error.new_zeros(0)]) for each in (elsewhere, across))
    return float(found.mean() / usual.mean()) if len(found) and usual.sum() > 0 else 1.0
