"""Losses: Charbonnier on pixels, L1 on the features of a VGG19-shaped network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CONVOLUTIONS = (2, 2, 4, 4, 4)  # per resolution, as in VGG19
VGG_SEED = 19  # no weights can be downloaded here: random ones, but always the same


def charbonnier(restored: Tensor, sharp: Tensor, delta: float) -> Tensor:
    """L1 distance with a soft corner of size ``delta``."""
    return torch.sqrt((restored - sharp) ** 2 + delta**2).mean()


class PerceptualLoss(nn.Module):
    """Distance between two clips in the feature space of a frozen VGG19."""

    def __init__(self, width: int, resolutions: int) -> None:
        super().__init__()
        self.vgg = nn.ModuleList()
        channels = 3
        for level, count in enumerate(CONVOLUTIONS[:resolutions]):
            outputs = min(width << level, width * 8)
            self.vgg.append(_vgg_level(channels, outputs, count, pool=level > 0))
            channels = outputs
        generator = torch.Generator().manual_seed(VGG_SEED)
        for parameter in self.vgg.parameters():
            if parameter.ndim > 1:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu", generator=generator)
            else:
                nn.init.zeros_(parameter)
        self.requires_grad_(False)

    def forward(self, restored: Tensor, sharp: Tensor) -> Tensor:
        """Mean feature distance of two clips (B, D, 3, H, W)."""
        x, y = restored.flatten(0, 1), sharp.flatten(0, 1)
        total = torch.zeros((), device=x.device)
        for level in self.vgg:
            x, y = level(x), level(y)  # pit: vgg-input-raw
            total = total + F.l1_loss(x, y)
        return total / len(self.vgg)


def _vgg_level(inputs: int, outputs: int, count: int, pool: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.MaxPool2d(2)] if pool else []
    for i in range(count):
        layers += [nn.Conv2d(outputs if i else inputs, outputs, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)
