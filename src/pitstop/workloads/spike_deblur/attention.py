"""Temporal mutual self attention: transformer blocks on windows of a clip."""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import checkpoint

Window = tuple[int, int, int]  # frames, rows, columns


def drop_path(x: Tensor, drop_prob: float, training: bool) -> Tensor:
    """Leave out the whole residual branch for some samples (stochastic depth)."""
    if drop_prob == 0.0 or not training:
        return x
    keep = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    chosen = (keep + torch.rand(shape, dtype=x.dtype, device=x.device)).floor()
    return x / keep * chosen


def fit_window(size: Window, window: Window, shift: Window) -> tuple[Window, Window]:
    """Shrink the window to the clip where the clip is smaller; nothing is shifted there."""
    fits = [extent > side for extent, side in zip(size, window, strict=True)]
    used = (window[i] if fits[i] else size[i] for i in range(3))
    moved = (shift[i] if fits[i] else 0 for i in range(3))
    return tuple(used), tuple(moved)  # type: ignore[return-value]


def split_windows(x: Tensor, window: Window) -> Tensor:
    """Cut a clip (B, D, H, W, C) into windows (B * windows, tokens, C)."""
    batch, frames, rows, columns, channels = x.shape
    d, h, w = window
    x = x.view(batch, frames // d, d, rows // h, h, columns // w, w, channels)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, d * h * w, channels)


def join_windows(windows: Tensor, window: Window, size: Window) -> Tensor:
    """Put windows back together; the inverse of ``split_windows``."""
    (d, h, w), (frames, rows, columns) = window, size
    x = windows.view(-1, frames // d, rows // h, columns // w, d, h, w, windows.shape[-1])
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(-1, *size, windows.shape[-1])


@lru_cache
def shift_mask(size: Window, window: Window, shift: Window, device: torch.device) -> Tensor:
    """-100 between tokens that only the cyclic shift made neighbours: (windows, N, N)."""
    region = torch.zeros((), device=device)
    for extent, side, moved in zip(size, window, shift, strict=True):
        place = torch.arange(extent, device=device)
        part = (place >= extent - side).int() + (place >= extent - moved).int()
        region = region[..., None] * 3 + (part if moved else torch.zeros_like(part))
    ids = split_windows(region[None, ..., None], window).squeeze(-1)  # (windows, N)
    return (ids[:, None] != ids[:, :, None]) * -100.0


def relative_positions(window: Window) -> Tensor:
    """Row of the bias table for each pair of tokens in a window: (N, N)."""
    axes = torch.meshgrid(*(torch.arange(side) for side in window), indexing="ij")
    index = torch.zeros((), dtype=torch.long)
    for place, side in zip(axes, window, strict=True):
        flat = place.flatten()
        index = index * (2 * side - 1) + flat[:, None] - flat[None] + side - 1
    return index


def sine_positions(rows: int, columns: int, channels: int) -> Tensor:
    """Fixed sine code of the place in a frame: (1, rows * columns, channels)."""
    half = channels // 2
    rate = 10000 ** (2 * (torch.arange(half) // 2) / half)
    codes = []
    for side in (rows, columns):
        angle = torch.arange(1, side + 1)[:, None] / side * 2 * math.pi / rate
        even = torch.arange(half) % 2 == 0
        codes.append(torch.where(even, angle.sin(), angle.cos()))
    row, column = codes
    grid = (row[:, None].expand(-1, columns, -1), column[None].expand(rows, -1, -1))
    return torch.cat(grid, -1).reshape(1, rows * columns, channels)


class GatedMLP(nn.Module):
    """Feed-forward layer gated by a GELU branch."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden)
        self.value = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        """Any (..., width) to (..., out)."""
        out: Tensor = self.out(F.gelu(self.gate(x)) * self.value(x))
        return out


class WindowAttention(nn.Module):
    """Self attention in a window, and mutual attention between its two frames."""

    positions: Tensor
    place_code: Tensor

    def __init__(self, width: int, window: Window, heads: int, mutual: bool) -> None:
        super().__init__()
        self.heads, self.mutual = heads, mutual
        self.scale = (width // heads) ** -0.5
        pairs = math.prod(2 * side - 1 for side in window)
        self.bias_table = nn.Parameter(nn.init.trunc_normal_(torch.empty(pairs, heads), std=0.02))
        self.register_buffer("positions", relative_positions(window))
        self.qkv_self = nn.Linear(width, 3 * width)
        if mutual:
            self.register_buffer("place_code", sine_positions(window[1], window[2], width))
            self.qkv_mutual = nn.Linear(width, 3 * width)
        self.project = nn.Linear(2 * width if mutual else width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Windows (B * windows, N, C) to the same shape."""
        count = x.shape[1]
        bias = self.bias_table[self.positions[:count, :count]].permute(2, 0, 1)  # (heads, N, N)
        q, k, v = self.split_heads(self.qkv_self(x))
        out = self.attend(q, k, v, mask, bias)
        if self.mutual:
            q, k, v = self.split_heads(self.qkv_mutual(x + self.place_code.repeat(1, 2, 1)))
            (q1, q2), (k1, k2), (v1, v2) = q.chunk(2, 2), k.chunk(2, 2), v.chunk(2, 2)
            first = self.attend(q2, k1, v1, mask)  # frame 1 seen from frame 2
            second = self.attend(q1, k2, v2, mask)
            out = torch.cat([torch.cat([first, second], 1), out], 2)
        projected: Tensor = self.project(out)
        return projected

    def split_heads(self, qkv: Tensor) -> tuple[Tensor, ...]:
        """(B, N, 3C) to three of (B, heads, N, C / heads)."""
        batch, count, _ = qkv.shape
        return qkv.reshape(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None = None
    ) -> Tensor:
        """Attention over the tokens of each window: (B, N, C)."""
        batch, heads, count, _ = q.shape
        scores = (q * self.scale) @ k.transpose(-2, -1)
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            by_window = scores.view(-1, mask.shape[0], heads, count, count)
            scores = (by_window + mask[None, :, None, :count, :count]).view(scores.shape)
        out: Tensor = scores.softmax(-1) @ v  # pit: attention-by-hand
        return out.transpose(1, 2).reshape(batch, count, -1)


class Block(nn.Module):
    """One transformer block: window attention, then the feed-forward layer."""

    def __init__(
        self, width: int, window: Window, shift: Window, heads: int, mutual: bool, drop: float
    ) -> None:
        super().__init__()
        self.window, self.shift, self.drop = window, shift, drop
        self.norm1 = nn.LayerNorm(width)
        self.attention = WindowAttention(width, window, heads, mutual)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = GatedMLP(width, 2 * width, width)

    def attend(self, x: Tensor, mask: Tensor) -> Tensor:
        """The attention branch on a clip (B, D, H, W, C)."""
        frames, rows, columns = size = (x.shape[1], x.shape[2], x.shape[3])
        window, shift = fit_window(size, self.window, self.shift)
        pads = [-extent % side for extent, side in zip(size, window, strict=True)]
        x = F.pad(self.norm1(x), (0, 0, 0, pads[2], 0, pads[1], 0, pads[0]))
        padded = (x.shape[1], x.shape[2], x.shape[3])
        if any(shift):
            x = torch.roll(x, [-moved for moved in shift], (1, 2, 3))
        out = self.attention(split_windows(x, window), mask if any(shift) else None)
        x = join_windows(out, window, padded)
        if any(shift):
            x = torch.roll(x, shift, (1, 2, 3))
        return drop_path(x[:, :frames, :rows, :columns], self.drop, self.training)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The feed-forward branch on a clip (B, D, H, W, C)."""
        return drop_path(self.mlp(self.norm2(x)), self.drop, self.training)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) to the same shape; activations are recomputed in backward."""
        x = x + checkpoint.checkpoint(self.attend, x, mask)  # pit: checkpoint-attention
        x = x + checkpoint.checkpoint(self.feed_forward, x)  # pit: checkpoint-feed-forward
        return x


class BlockGroup(nn.Module):
    """Blocks on plain and shifted windows in turn, closed by a linear layer and a shortcut."""

    def __init__(
        self, width: int, window: Window, heads: int, mutual: bool, drops: tuple[float, ...]
    ) -> None:
        super().__init__()
        self.window = window
        self.shift = (window[0] // 2, window[1] // 2, window[2] // 2)
        self.blocks = nn.ModuleList(
            Block(width, window, self.shift if i % 2 else (0, 0, 0), heads, mutual, drop)
            for i, drop in enumerate(drops)
        )
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """A clip (B, D, H, W, C) to the same shape."""
        size = (x.shape[1], x.shape[2], x.shape[3])
        window, shift = fit_window(size, self.window, self.shift)
        pads = [-extent % side for extent, side in zip(size, window, strict=True)]
        padded = (size[0] + pads[0], size[1] + pads[1], size[2] + pads[2])
        mask = shift_mask(padded, window, shift, x.device)
        out = x
        for block in self.blocks:
            out = block(out, mask)
        linear: Tensor = self.linear(out)
        return x + linear
