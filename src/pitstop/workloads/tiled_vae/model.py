"""A causal video VAE: 8x smaller in height and width, 4x in time, 16 latent channels.

Clips have 4k+1 frames: the first is coded alone, the others in groups of four.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .blocks import (
    CausalConv3d,
    Downsample,
    FrameNorm,
    MiddleBlock,
    Phase,
    ResidualBlock,
    Upsample,
)

FIRST_LOG_VARIANCE = -6.0  # sampling begins with little noise, so that there is something to learn


@dataclass(frozen=True, slots=True)
class VaeConfig:
    """Width and depth of the network; the defaults are the full size."""

    channels: tuple[int, ...] = (128, 256, 512, 512)
    layers: int = 2
    groups: int = 32
    latent_channels: int = 16
    temporal_levels: int = 2  # the innermost levels also halve the number of frames


class Encoder(nn.Module):
    """Pixels to the moments (mean and log-variance) of the latent."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        channels, last = config.channels, len(config.channels) - 1
        levels: list[nn.Module] = []
        width = channels[0]
        for level, wider in enumerate(channels):
            for _ in range(config.layers):
                levels.append(ResidualBlock(width, wider, config.groups))
                width = wider
            if level < last:
                levels.append(Downsample(width, in_time=level >= last - config.temporal_levels))
        self.conv_in = CausalConv3d(3, channels[0])
        self.levels = nn.Sequential(*levels)
        self.middle = MiddleBlock(width, config.groups)
        self.norm_out = FrameNorm(config.groups, width, eps=1e-6)
        self.conv_out = CausalConv3d(width, 2 * config.latent_channels)
        with torch.no_grad():
            bias = self.conv_out.get_parameter("bias")
            bias[config.latent_channels :] = FIRST_LOG_VARIANCE

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, 4k+1, H, W) to (B, 32, k+1, H/8, W/8)."""
        x = self.middle(self.levels(self.conv_in(x)))
        moments: Tensor = self.conv_out(F.silu(self.norm_out(x)))
        return moments


class Decoder(nn.Module):
    """Latent to pixels; one residual block more per level than the encoder."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        channels, last = config.channels[::-1], len(config.channels) - 1
        levels: list[nn.Module] = []
        width = channels[0]
        for level, narrower in enumerate(channels):
            for _ in range(config.layers + 1):
                levels.append(ResidualBlock(width, narrower, config.groups))
                width = narrower
            if level < last:
                levels.append(Upsample(width, in_time=level < config.temporal_levels))
        self.conv_in = CausalConv3d(config.latent_channels, channels[0])
        self.middle = MiddleBlock(channels[0], config.groups)
        self.levels = nn.Sequential(*levels)
        self.norm_out = FrameNorm(config.groups, width, eps=1e-6)
        self.conv_out = CausalConv3d(width, 3)

    def forward(self, z: Tensor) -> Tensor:
        """(B, 16, k+1, H/8, W/8) to (B, 3, 4k+1, H, W)."""
        x = self.levels(self.middle(self.conv_in(z)))
        pixels: Tensor = self.conv_out(F.silu(self.norm_out(x)))
        return pixels


class VideoVae(nn.Module):
    """Encoder and decoder; long clips pass through in slices that hand on their last frames."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        self.spatial_scale = 2 ** (len(config.channels) - 1)
        self.temporal_scale = 2**config.temporal_levels
        self.latent_channels = config.latent_channels
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def posterior(self, clip: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the latent of ``clip`` (B, 3, 4k+1, H, W) in -1 to 1."""
        moments = self._in_slices(self.encoder, clip, self.temporal_scale)
        mean, log_variance = moments.chunk(2, dim=1)
        return mean, log_variance.clamp(-30, 20)

    def encode(self, clip: Tensor) -> Tensor:
        """The latent (B, 16, k+1, H/8, W/8): the posterior's mean."""
        return self.posterior(clip)[0]

    def decode(self, latent: Tensor) -> Tensor:
        """The clip (B, 3, 4k+1, H, W) that ``latent`` stands for."""
        return self._in_slices(self.decoder, latent, 1)

    def forward(self, clip: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstruction from a sampled latent, with the posterior it was drawn from."""
        mean, log_variance = self.posterior(clip)
        latent = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        return self.decode(latent), mean, log_variance

    def _in_slices(self, network: Callable[[Tensor], Tensor], x: Tensor, length: int) -> Tensor:
        """``network`` over the first 1 + ``length`` frames, then ``length`` at a time."""
        if self.training or x.shape[2] <= 1 + length:
            return network(x)
        first, *others = torch.split(x[:, :, 1:], length, dim=2)
        self._enter(Phase.FIRST)
        outputs = [network(torch.cat((x[:, :, :1], first), dim=2))]
        self._enter(Phase.NEXT)
        outputs += [network(part) for part in others]
        self._enter(Phase.WHOLE)
        return torch.cat(outputs, dim=2)

    def _enter(self, phase: Phase) -> None:
        for module in self.modules():
            if isinstance(module, CausalConv3d | Upsample):
                module.phase = phase
            if isinstance(module, CausalConv3d) and phase is not Phase.NEXT:
                module.memory = None
