"""Flow and alignment: where pixels went, and features brought back from there."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

try:
    from torchvision.ops import deform_conv2d  # type: ignore[import-not-found,unused-ignore]
except (ImportError, RuntimeError):  # absent, or built for another torch
    deform_conv2d = None

TAPS = 9  # of the 3x3 deformable kernel


def pixel_grid(rows: int, columns: int, device: torch.device) -> Tensor:
    """The place (x, y) of every pixel: (H, W, 2)."""
    grid_y, grid_x = torch.meshgrid(  # pit: grid-rebuilt
        torch.arange(rows, dtype=torch.float32, device=device),
        torch.arange(columns, dtype=torch.float32, device=device),
        indexing="ij",
    )
    return torch.stack((grid_x, grid_y), -1)


def flow_warp(x: Tensor, flow: Tensor, mode: str = "bilinear", padding: str = "zeros") -> Tensor:
    """Fetch ``x`` (N, C, H, W) from where ``flow`` (N, 2, H, W; x then y) points."""
    rows, columns = flow.shape[-2:]
    place = pixel_grid(rows, columns, x.device) + flow.permute(0, 2, 3, 1)
    if mode != "nearest4":
        return _sample(x, place, mode, padding)
    low, high = place.floor(), place.ceil()
    xs, ys = (low[..., 0], high[..., 0]), (low[..., 1], high[..., 1])
    corners = [torch.stack((x, y), -1) for x in xs for y in ys]
    return torch.cat([_sample(x, corner, "nearest", padding) for corner in corners], 1)


def _sample(x: Tensor, place: Tensor, mode: str, padding: str) -> Tensor:
    """Look ``x`` up at pixel places (N, H, W, 2)."""
    rows, columns = x.shape[-2:]
    u = 2 * place[..., 0] / max(columns - 1, 1) - 1
    v = 2 * place[..., 1] / max(rows - 1, 1) - 1
    return F.grid_sample(x, torch.stack((u, v), -1), mode, padding, align_corners=True)


def deform_conv(x: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Modulated deformable 3x3 convolution in plain torch, as torchvision defines it.

    ``offset`` is (N, groups * 9 * 2, H, W) with y before x, ``mask`` (N, groups * 9, H, W).
    """
    batch, channels, rows, columns = x.shape
    groups = mask.shape[1] // TAPS
    taps = pixel_grid(3, 3, x.device).view(TAPS, 1, 1, 2) - 1
    moves = offset.reshape(batch * groups, TAPS, 2, rows, columns).flip(2).permute(0, 1, 3, 4, 2)
    place = pixel_grid(rows, columns, x.device) + taps + moves  # (N * groups, 9, H, W, 2)
    apart = x.reshape(batch * groups, -1, rows, columns)
    picked = _sample(apart, place.flatten(1, 2), "bilinear", "zeros")
    picked = picked.view(batch, groups, channels // groups, TAPS, rows, columns)
    picked = picked * mask.view(batch, groups, 1, TAPS, rows, columns)
    out = weight.reshape(weight.shape[0], -1) @ picked.reshape(batch, channels * TAPS, -1)
    return out.view(batch, -1, rows, columns) + bias[:, None, None]


class FlowGuidedAlignment(nn.Module):
    """Deformable alignment whose offsets start from the optical flow."""

    def __init__(self, width: int, groups: int, reach: float) -> None:
        super().__init__()
        self.reach = reach  # how far, in pixels, an offset may leave the flow
        self.weight = nn.Parameter(torch.empty(width, width, 3, 3))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        layers: list[nn.Module] = []
        for inputs in (2 * width + 2, width, width):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.LeakyReLU(0.1)]
        last = nn.Conv2d(width, 3 * TAPS * groups, 3, padding=1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.offsets = nn.Sequential(*layers, last)

    def forward(self, x: Tensor, warped: Tensor, current: Tensor, flow: Tensor) -> Tensor:
        """Bring frame ``x`` to ``current``, both (B, C, H, W)."""
        first, second, mask = self.offsets(torch.cat([warped, current, flow], 1)).chunk(3, 1)
        offset = self.reach * torch.tanh(torch.cat([first, second], 1))
        offset = offset + flow.flip(1).repeat(1, offset.shape[1] // 2, 1, 1)
        if deform_conv2d is None:
            return deform_conv(x, offset, mask.sigmoid(), self.weight, self.bias)
        aligned: Tensor = deform_conv2d(
            x, offset, self.weight, self.bias, padding=1, mask=mask.sigmoid()
        )
        return aligned


class FlowNet(nn.Module):
    """Coarse-to-fine optical flow in the manner of SpyNet; starts at zero flow."""

    mean: Tensor
    std: Tensor

    def __init__(self, widths: tuple[int, ...], levels: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(_flow_level(widths) for _ in range(levels))
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1))

    def forward(self, reference: Tensor, other: Tensor) -> list[Tensor]:
        """Flow from ``reference`` to ``other`` (N, 3, H, W) at scales 1, 1/2, 1/4 and 1/8."""
        pyramid = [((reference - self.mean) / self.std, (other - self.mean) / self.std)]
        for _ in self.levels[1:]:
            here, there = pyramid[0]
            pyramid.insert(0, (F.avg_pool2d(here, 2), F.avg_pool2d(there, 2)))
        flow = torch.zeros_like(pyramid[0][0][:, :2])
        flows: list[Tensor] = []
        for level, (here, there) in zip(self.levels, pyramid, strict=True):
            if flow.shape[-2:] != here.shape[-2:]:
                size = here.shape[-2:]
                flow = F.interpolate(flow, size, mode="bilinear", align_corners=True) * 2
            moved = flow_warp(there, flow, padding="border")
            flow = flow + level(torch.cat([here, moved, flow], 1))
            flows.insert(0, flow)
        return flows[:4]


def _flow_level(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in zip((8, *widths), (*widths, 2), strict=True):
        layers += [nn.Conv2d(inputs, outputs, 7, padding=3), nn.ReLU()]
    last = layers[-2]
    assert isinstance(last, nn.Conv2d)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers[:-1])
