"""Max-window attention: every pixel looks at its own window, then at a coarse grid."""

import torch
from torch import Tensor, nn

WINDOW = 8  # pixels along each side of a window, and points along each side of a grid


class MaxAttention(nn.Module):
    """Attention inside windows, then across the grid; with a context, cross attention."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.block_attention = ResidualAttention(width, head_width)
        self.block_feed_forward = FeedForward(width)
        self.grid_attention = ResidualAttention(width, head_width)
        self.grid_feed_forward = FeedForward(width)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Both (B, C, H, W); height and width are multiples of the window."""
        x = self.block_attention(to_blocks(x), None if context is None else to_blocks(context))
        x = from_blocks(self.block_feed_forward(x))
        x = self.grid_attention(to_grid(x), None if context is None else to_grid(context))
        return from_grid(self.grid_feed_forward(x))


class MaxCrossAttention(nn.Module):
    """Lets features look at those of the previous and the next frame."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.project_in = inverted_bottleneck(2 * width, width)
        self.attention = MaxAttention(width, head_width)
        self.out_conv = nn.Sequential(  # pit: dead-out-conv
            SqueezeExcitation(2 * width), nn.Conv2d(2 * width, width, 3, padding=1)
        )

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """The context has twice the channels: previous and next, concatenated."""
        fused: Tensor = self.attention(x, self.project_in(context))
        return fused


class ResidualAttention(nn.Module):
    """Pre-norm multi-head attention in windows, with a learned bias per relative position."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.heads, self.scale = width // head_width, head_width**-0.5
        self.norm = nn.LayerNorm(width)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)
        self.position_bias = nn.Embedding((2 * WINDOW - 1) ** 2, self.heads)
        self.register_buffer("position_index", relative_positions(), persistent=False)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Windows in, windows out: (B, X, Y, w, w, C)."""
        query = self.norm(x)
        source = query if context is None else self.norm(context)
        q = self._split_heads(self.to_q(query)) * self.scale
        k = self._split_heads(self.to_k(source))
        v = self._split_heads(self.to_v(source))
        bias = self.position_bias(self.position_index)  # (w * w, w * w, heads)
        similarity = torch.einsum("bhid,bhjd->bhij", q, k) + bias.permute(2, 0, 1)
        weights = similarity.softmax(dim=-1)  # pit: unfused-attention
        out = torch.einsum("bhij,bhjd->bhid", weights, v)
        mixed: Tensor = self.to_out(out.transpose(1, 2).reshape(x.shape))
        return mixed + x

    def _split_heads(self, x: Tensor) -> Tensor:
        windows = x.reshape(-1, WINDOW * WINDOW, self.heads, x.shape[-1] // self.heads)
        return windows.transpose(1, 2)  # (windows, heads, w * w, C / heads)


class FeedForward(nn.Module):
    """Pre-norm two-layer perceptron with a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Any shape that ends in the channels."""
        change: Tensor = self.net(x)
        return x + change


class SqueezeExcitation(nn.Module):
    """Scales each channel by a gate computed from the channel means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, width // 4, bias=False)
        self.up = nn.Linear(width // 4, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W)."""
        gate: Tensor = self.up(nn.functional.silu(self.down(x.mean(dim=(2, 3))))).sigmoid()
        return x * gate[:, :, None, None]


def inverted_bottleneck(width_in: int, width_out: int) -> nn.Sequential:
    """Widen by 1x1, filter each channel by 3x3, gate, narrow by 1x1."""
    hidden = 4 * width_out
    return nn.Sequential(
        nn.Conv2d(width_in, hidden, 1),
        nn.BatchNorm2d(hidden),
        nn.GELU(),
        nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden),
        nn.BatchNorm2d(hidden),
        nn.GELU(),
        SqueezeExcitation(hidden),
        nn.Conv2d(hidden, width_out, 1),
        nn.BatchNorm2d(width_out),
    )


def relative_positions() -> Tensor:
    """For each pair of pixels in a window, the row of their bias in the table."""
    steps = torch.arange(WINDOW)
    places = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1).T  # (w * w, 2)
    apart = places[:, None] - places[None] + WINDOW - 1
    return apart[..., 0] * (2 * WINDOW - 1) + apart[..., 1]


def to_blocks(x: Tensor) -> Tensor:
    """(B, C, X w, Y w) to (B, X, Y, w, w, C): windows of neighbours."""
    batch, width, height, breadth = x.shape
    x = x.reshape(batch, width, height // WINDOW, WINDOW, breadth // WINDOW, WINDOW)
    return x.permute(0, 2, 4, 3, 5, 1)


def from_blocks(x: Tensor) -> Tensor:
    """The inverse of ``to_blocks``."""
    batch, rows, columns, _, _, width = x.shape
    x = x.permute(0, 5, 1, 3, 2, 4)
    return x.reshape(batch, width, rows * WINDOW, columns * WINDOW)


def to_grid(x: Tensor) -> Tensor:
    """(B, C, w X, w Y) to (B, X, Y, w, w, C): windows of far-apart pixels."""
    batch, width, height, breadth = x.shape
    x = x.reshape(batch, width, WINDOW, height // WINDOW, WINDOW, breadth // WINDOW)
    return x.permute(0, 3, 5, 2, 4, 1)


def from_grid(x: Tensor) -> Tensor:
    """The inverse of ``to_grid``."""
    batch, rows, columns, _, _, width = x.shape
    x = x.permute(0, 5, 3, 1, 4, 2)
    return x.reshape(batch, width, WINDOW * rows, WINDOW * columns)
