"""EfficientNet-B0: inverted bottlenecks with squeeze and excitation, seven stages."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of blocks; only the first has the stride."""

    expansion: int
    channels: int
    blocks: int
    stride: int
    kernel: int


STAGES = (
    Stage(1, 16, 1, 1, 3),
    Stage(6, 24, 2, 2, 3),
    Stage(6, 40, 2, 2, 5),
    Stage(6, 80, 3, 2, 3),
    Stage(6, 112, 3, 1, 5),
    Stage(6, 192, 4, 2, 5),
    Stage(6, 320, 1, 1, 3),
)
DROP_PATH = 0.2  # of the last block; earlier ones drop proportionally less


def convolution(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution without bias, and its batch norm."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs, eps=1e-3)]


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate computed from all channel means."""

    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, reduced, 1)
        self.expand = nn.Conv2d(reduced, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Gate the features (B, C, H, W)."""
        means = features.mean((2, 3), keepdim=True)
        gate = torch.sigmoid(self.expand(nn.functional.silu(self.reduce(means))))
        return features * gate


class Bottleneck(nn.Module):
    """Expand, filter each channel alone, excite, project; with a shortcut where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stage: Stage, stride: int, drop: float) -> None:
        super().__init__()
        wide = inputs * stage.expansion
        expand = [*convolution(inputs, wide), nn.SiLU()] if stage.expansion > 1 else []
        self.layers = nn.Sequential(
            *expand,
            *convolution(wide, wide, stage.kernel, stride, groups=wide),
            nn.SiLU(),
            SqueezeExcite(wide, max(1, inputs // 4)),
            *convolution(wide, outputs),
        )
        self.stride, self.drop = stride, drop
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        """One residual block; in training a share of the samples skips it."""
        result: Tensor = self.layers(features)
        if not self.shortcut:
            return result
        if self.training and self.drop:
            kept = torch.rand(len(result), 1, 1, 1, device=result.device) >= self.drop
            result = result * kept / (1 - self.drop)
        return features + result


class EfficientNet(nn.Module):
    """The classifier, of which the features at every resolution can be had."""

    def __init__(self, width: float = 1.0, stages: tuple[Stage, ...] = STAGES) -> None:
        super().__init__()
        channels = [max(8, round(stage.channels * width / 8) * 8) for stage in stages]
        inputs, final = max(8, int(32 * width)), int(1280 * width)
        self.stem = nn.Sequential(*convolution(3, inputs, 3, 2), nn.SiLU())
        self.blocks = nn.ModuleList()
        total = sum(stage.blocks for stage in stages)
        for stage, outputs in zip(stages, channels, strict=True):
            for index in range(stage.blocks):
                stride = 1 if index else stage.stride
                drop = DROP_PATH * len(self.blocks) / total
                self.blocks.append(Bottleneck(inputs, outputs, stage, stride, drop))
                inputs = outputs
        self.head = nn.Sequential(*convolution(inputs, final), nn.SiLU())
        self.classifier = nn.Linear(final, 1000)
        self.channels = {"reduction_3": channels[2], "reduction_4": channels[4]}
        _initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores (B, 1000)."""
        means = self.endpoints(images)["reduction_6"].mean((2, 3))
        scores: Tensor = self.classifier(means)
        return scores

    def endpoints(self, images: Tensor) -> dict[str, Tensor]:
        """The last features of each resolution, by name; images are (B, 3, H, W)."""
        found = []
        features = self.stem(images)
        for block in self.blocks:
            if block.stride == 2:
                found.append(features)
            features = block(features)  # pit: every-block-runs
        found += [features, self.head(features)]
        return {f"reduction_{level}": each for level, each in enumerate(found, start=1)}


def _initialise(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
