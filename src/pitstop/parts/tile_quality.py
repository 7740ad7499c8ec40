"""What tiling did to a picture: how far it is from the untiled one, and whether seams show."""

import torch

from pitstop.parts.tiles import Grid

ROUNDING = 1e-12  # of the mean square: below this there is no error to speak of


def psnr(tiled: torch.Tensor, untiled: torch.Tensor) -> float:
    """Peak signal-to-noise ratio in decibels; the peak is the range of the untiled picture."""
    exact = untiled.double()
    span = exact.max() - exact.min()
    error = (tiled.double() - exact).square().mean()
    return float(10 * (span.square() / error.clamp_min(ROUNDING * span.square())).log10())


def seam(tiled: torch.Tensor, untiled: torch.Tensor, grid: Grid, scale: int) -> float:
    """Jump of the error across tile borders over its jump elsewhere: 1 means no seam shows."""
    error = tiled.double() - untiled.double()
    across, elsewhere = [], []
    for axis, dim in ((grid.rows, -2), (grid.columns, -1)):
        jumps = error.diff(dim=dim).abs().transpose(dim, 0).flatten(1).mean(1)
        at_seam = torch.zeros(len(jumps), dtype=torch.bool, device=jumps.device)
        at_seam[[line * scale - 1 for line in axis.seams]] = True
        across.append(jumps[at_seam])
        elsewhere.append(jumps[~at_seam])
    usual = torch.cat(elsewhere).mean()
    lines = torch.cat(across)
    return float(lines.mean() / usual) if len(lines) and usual > 0 else 1.0
