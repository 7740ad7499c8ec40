"""The convolutional pieces of encoder and decoder."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MaxAttention


def swish(x: Tensor) -> Tensor:
    """The nonlinearity everywhere."""
    return x * torch.sigmoid(x)


def group_norm(width: int) -> nn.GroupNorm:
    """Normalise in 32 groups."""
    return nn.GroupNorm(32, width, eps=1e-6)


class ResidualBlock(nn.Module):
    """Two normalised 3x3 convolutions and a shortcut."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.norm1 = group_norm(width_in)
        self.conv1 = nn.Conv2d(width_in, width_out, 3, padding=1)
        self.norm2 = group_norm(width_out)
        self.conv2 = nn.Conv2d(width_out, width_out, 3, padding=1)
        same = width_in == width_out
        self.shortcut = nn.Identity() if same else nn.Conv2d(width_in, width_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W)."""
        hidden = self.conv1(swish(self.norm1(x)))
        hidden = self.conv2(swish(self.norm2(hidden)))
        out: Tensor = self.shortcut(x) + hidden
        return out


class Downsample(nn.Module):
    """Half the size by a strided convolution, padded at the bottom and the right only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C, H / 2, W / 2)."""
        out: Tensor = self.conv(F.pad(x, (0, 1, 0, 1)))
        return out


class Upsample(nn.Module):
    """Twice the size by the nearest neighbour, then a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C, 2 H, 2 W)."""
        out: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return out


def residual_blocks(width_in: int, width_out: int, count: int) -> nn.Sequential:
    """A level's blocks; the first one changes the width."""
    widths = [width_in] + [width_out] * count
    return nn.Sequential(*(ResidualBlock(widths[i], widths[i + 1]) for i in range(count)))


def middle_blocks(width: int) -> nn.Sequential:
    """The blocks at the lowest resolution, with one-headed attention between them."""
    return nn.Sequential(
        ResidualBlock(width, width), MaxAttention(width, width), ResidualBlock(width, width)
    )


def head(width: int, width_out: int) -> nn.Sequential:
    """Four convolutions from the last features to one of the warp's inputs."""
    return nn.Sequential(
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width // 2, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width // 2, width_out, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width_out, width_out, 3, padding=1),
    )
