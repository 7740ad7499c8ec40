"""Building blocks of the video VAE; tensors are (B, C, T, H, W) and time never looks ahead."""

from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HALF_PRECISION = (torch.float16, torch.bfloat16)
FAINT = 0.1  # of the usual first weights, where a layer should begin as hardly more than a copy


class Phase(Enum):
    """Which part of a clip a causal layer sees: all of it, its first slice, or a later one."""

    WHOLE = 0
    FIRST = 1
    NEXT = 2


class CausalConv3d(nn.Conv3d):
    """A 3-D convolution padded in time at the front only, or by what it saw last."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: tuple[int, int, int] = (3, 3, 3),
        stride: tuple[int, int, int] = (1, 1, 1),
        space_padding: int = 1,
    ) -> None:
        padding = (0, space_padding, space_padding)
        super().__init__(in_channels, out_channels, kernel, stride, padding)
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")
        nn.init.zeros_(self.get_parameter("bias"))
        self.phase = Phase.WHOLE
        self.memory: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``x`` behind a copy of its first frame, or behind the last slice."""
        if self.phase is Phase.NEXT and self.memory is not None:
            x = torch.cat((self.memory, x), dim=2)
        elif self.kernel_size[0] > 1:
            head = x[:, :, :1].tile(1, 1, self.kernel_size[0] - 1, 1, 1)
            x = torch.cat((head, x), dim=2)
        kept = self.kernel_size[0] - self.stride[0]
        if self.phase is not Phase.WHOLE and kept > 0:
            self.memory = x[:, :, -kept:].detach()
        out: Tensor = super().forward(x)
        return out

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        if not (input.is_cuda and weight.dtype in HALF_PRECISION and bias is not None):
            plain: Tensor = super()._conv_forward(input, weight, bias)
            return plain
        # Since torch 2.9 the dispatcher takes half-precision Conv3d to a kernel that needs three
        # times the memory; asking cuDNN by name goes around it.
        out = torch.cudnn_convolution(
            input,
            weight,
            self.padding,  # type: ignore[arg-type]
            self.stride,
            self.dilation,
            self.groups,
            benchmark=False,
            deterministic=False,
            allow_tf32=True,
        )
        return out.add_(bias.view(1, -1, 1, 1, 1))


@torch.no_grad()
def start_as_copy(conv: nn.Conv3d, taps: slice) -> None:
    """Let ``conv`` begin as the mean of each channel's own spatial ``taps`` in the newest frame."""
    conv.weight.mul_(FAINT)
    same = torch.arange(min(conv.weight.shape[:2]))
    window = conv.weight[0, 0, -1, taps, taps]
    conv.weight[same, same, -1, taps, taps] += 1 / window.numel()


@torch.no_grad()
def start_faint(layer: nn.Conv3d | nn.Linear) -> None:
    """Let ``layer``, the last of a residual branch, begin by adding next to nothing."""
    for parameter in layer.parameters():
        parameter.mul_(FAINT)


class FrameNorm(nn.GroupNorm):
    """GroupNorm with statistics of each frame alone, so that no frame knows its successors."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, T, H, W) frame by frame."""
        batch, channels, frames, height, width = x.shape
        x = x.transpose(1, 2).reshape(batch * frames, channels, height, width)
        x = super().forward(x)  # pit: group-norm
        return x.view(batch, frames, channels, height, width).transpose(1, 2)


class ResidualBlock(nn.Module):
    """Norm, SiLU and convolution, twice, beside a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, groups: int) -> None:
        super().__init__()
        self.norm1 = FrameNorm(groups, in_channels, eps=1e-6)
        self.conv1 = CausalConv3d(in_channels, out_channels)
        self.norm2 = FrameNorm(groups, out_channels, eps=1e-6)
        self.conv2 = CausalConv3d(out_channels, out_channels)
        self.shortcut: nn.Module = nn.Identity()
        start_faint(self.conv2)
        if in_channels != out_channels:
            self.shortcut = CausalConv3d(in_channels, out_channels, (1, 1, 1), space_padding=0)
            nn.init.orthogonal_(self.shortcut.weight)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` and what the two convolutions add to it."""
        hidden = self.conv1(F.silu(self.norm1(x)))
        hidden = self.conv2(F.silu(self.norm2(hidden)))
        out: Tensor = self.shortcut(x) + hidden
        return out


class FrameAttention(nn.Module):
    """Self-attention with one head over the pixels of each frame."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = FrameNorm(groups, channels, eps=1e-6)
        self.to_query = nn.Linear(channels, channels)
        self.to_key = nn.Linear(channels, channels)
        self.to_value = nn.Linear(channels, channels)
        self.to_out = nn.Linear(channels, channels)
        start_faint(self.to_out)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` and what its pixels learn from each other."""
        pixels = self.norm(x).permute(0, 2, 3, 4, 1)  # (B, T, H, W, C)
        tokens = pixels.flatten(2, 3)  # (B, T, H*W, C): frames are attention's "heads"
        query, key, value = self.to_query(tokens), self.to_key(tokens), self.to_value(tokens)
        tokens = self.to_out(F.scaled_dot_product_attention(query, key, value))
        out: Tensor = x + tokens.view(pixels.shape).permute(0, 4, 1, 2, 3)
        return out


class MiddleBlock(nn.Sequential):
    """The narrowest place: attention between two residual blocks."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__(
            ResidualBlock(channels, channels, groups),
            FrameAttention(channels, groups),
            ResidualBlock(channels, channels, groups),
        )


class Downsample(nn.Module):
    """Halve height and width, and the frames too where ``in_time``."""

    def __init__(self, channels: int, in_time: bool) -> None:
        super().__init__()
        kernel, stride = ((3, 3, 3), (2, 2, 2)) if in_time else ((1, 3, 3), (1, 2, 2))
        self.conv = CausalConv3d(channels, channels, kernel, stride, space_padding=0)
        start_as_copy(self.conv, slice(0, 2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T, H, W) to (B, C, T or (T + 1) / 2, H / 2, W / 2)."""
        out: Tensor = self.conv(F.pad(x, (0, 1, 0, 1)))
        return out


class Upsample(nn.Module):
    """Double height and width, and the frames too where ``in_time``, by a learned shuffle."""

    def __init__(self, channels: int, in_time: bool) -> None:
        super().__init__()
        self.in_time, self.phase = in_time, Phase.WHOLE
        copies = 8 if in_time else 4
        self.spread = nn.Conv3d(channels, channels * copies, 1)
        self.conv = CausalConv3d(channels, channels)
        start_as_copy(self.conv, slice(1, 2))
        with torch.no_grad():  # starts as nearest-neighbour upsampling
            identity = torch.eye(channels).repeat(copies, 1)
            self.spread.weight.copy_(identity.view_as(self.spread.weight))
            nn.init.zeros_(self.spread.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T, H, W) to (B, C, T or 2 T - 1, 2 H, 2 W)."""
        batch, channels, frames, height, width = x.shape
        time = 2 if self.in_time else 1
        x = self.spread(x).view(batch, 2, 2, time, channels, frames, height, width)
        x = x.permute(0, 4, 5, 3, 6, 1, 7, 2)  # (B, C, T, time, H, 2, W, 2)
        x = x.reshape(batch, channels, frames * time, height * 2, width * 2)
        if self.in_time and self.phase is not Phase.NEXT:
            x = torch.cat((x[:, :, :1], x[:, :, 2:]), dim=2)  # the first frame stands alone
        out: Tensor = self.conv(x)
        return out
