"""How good a reconstruction is, and whether the tiles show in it; clips are in -1 to 1."""

from torch import Tensor

from .tiling import Tiling, seam_lines


def psnr(decoded: Tensor, clip: Tensor) -> float:
    """Peak signal-to-noise ratio in decibels."""
    error = (decoded.float().clamp(-1, 1) - clip).square().mean().clamp(min=1e-10)
    return float(10 * (4 / error).log10())


def seam(decoded: Tensor, clip: Tensor, tiling: Tiling) -> float:
    """Jump of the error across tile borders over its usual jump: 1 means no seam shows."""
    error = decoded.float() - clip  # (B, 3, T, H, W)
    rows, columns = (seam_lines(edge, tiling) for edge in error.shape[3:])
    jumps_y, jumps_x = error.diff(dim=3).abs(), error.diff(dim=4).abs()
    ratios = []
    if rows:
        ratios.append(jumps_y[:, :, :, [row - 1 for row in rows]].mean() / jumps_y.mean())
    if columns:
        ratios.append(jumps_x[..., [column - 1 for column in columns]].mean() / jumps_x.mean())
    return float(sum(ratios) / len(ratios)) if ratios else 1.0
