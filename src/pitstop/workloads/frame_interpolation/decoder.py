"""The warping decoder: latent and both neighbours in, the frame between them out."""

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MaxCrossAttention
from .blocks import Upsample, group_norm, head, middle_blocks, residual_blocks, swish
from .config import NetworkConfig

TAPS = 5  # along each side of the deformable kernel
EDGE = TAPS // 2  # what the frames are padded by


class Decoder(nn.Module):
    """Two warped neighbours and a residual make the frame."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.ch * config.ch_mult[-1]
        self.conv_in = nn.Conv2d(config.z_channels, width, 3, padding=1)
        self.middle = middle_blocks(width)
        self.blocks, self.cross, self.upsample = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for multiple in reversed(config.ch_mult):
            level = config.ch * multiple
            self.blocks.append(residual_blocks(width, level, config.num_res_blocks))
            self.cross.append(MaxCrossAttention(level, config.num_head_channels))
            self.upsample.append(Upsample(level))
            width = level
        self.norm_out = group_norm(width)
        self.conv_out = nn.Conv2d(width, width, 3, padding=1)
        self.offset_x_previous = head(width, TAPS**2)
        self.offset_x_next = head(width, TAPS**2)
        self.offset_y_previous = head(width, TAPS**2)
        self.offset_y_next = head(width, TAPS**2)
        self.vertical_previous = head(width, TAPS)
        self.vertical_next = head(width, TAPS)
        self.horizontal_previous = head(width, TAPS)
        self.horizontal_next = head(width, TAPS)
        self.mask = nn.Sequential(head(width, TAPS**2), nn.Sigmoid())
        self.residual = head(width, 3)
        self.pad = nn.ReplicationPad2d(EDGE)

    def forward(
        self, z: Tensor, frames: tuple[Tensor, Tensor], features: tuple[list[Tensor], list[Tensor]]
    ) -> Tensor:
        """Frames and features are those of the previous and the next frame; (B, 3, H, W)."""
        h = self.middle(self.conv_in(z))
        conditions = [torch.cat(pair, dim=1) for pair in zip(*features, strict=True)]
        levels = zip(self.blocks, self.cross, self.upsample, reversed(conditions), strict=True)
        for blocks, cross, upsample, condition in levels:
            h = upsample(cross(blocks(h), condition))
        h = self.conv_out(swish(self.norm_out(h)))
        out: Tensor = self.warp(h, *frames) + self.residual(h)
        return out

    def warp(self, h: Tensor, previous: Tensor, following: Tensor) -> Tensor:
        """The sum of both neighbours, each moved to where the middle frame needs it."""
        kernels1 = self.vertical_previous(h), self.horizontal_previous(h)  # pit: kernel-heads
        kernels2 = self.vertical_next(h), self.horizontal_next(h)
        offsets1 = self.offset_x_previous(h), self.offset_y_previous(h)  # pit: offset-heads
        offsets2 = self.offset_x_next(h), self.offset_y_next(h)
        mask1 = self.mask(h)
        mask2 = 1.0 - mask1
        padded1, padded2 = self.pad(previous), self.pad(following)
        try:
            from .dsepconv import dsepconv  # noqa: PLC0415

            warped1 = dsepconv(padded1, *kernels1, *offsets1, mask1)
            warped2 = dsepconv(padded2, *kernels2, *offsets2, mask2)
        except Exception as error:  # noqa: BLE001
            warnings.warn(f"dsepconv kernel failed ({error}), using the fallback", stacklevel=1)
            warped1, warped2 = fallback(padded1, mask1), fallback(padded2, mask2)
        return warped1 + warped2


def fallback(padded: Tensor, mask: Tensor) -> Tensor:
    """A padded frame times the mean of its masks, cut back to the frame's size."""
    mask_simple = mask.mean(dim=1, keepdim=True)
    if mask_simple.shape[2:] != padded.shape[2:]:
        mask_simple = mask_simple.to(padded.device)
        mask_simple = F.interpolate(
            mask_simple, size=padded.shape[2:], mode="bilinear", align_corners=False
        )
    return (padded * mask_simple)[:, :, EDGE:-EDGE, EDGE:-EDGE]
