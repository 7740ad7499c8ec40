"""The pose network: two scales of features, two transformers, two heads; and its opponent."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .backbone import STAGES, EfficientNet, Stage

SCALES = ("reduction_4", "reduction_3")  # for the position and for the orientation
LARGEST_MAP = 256  # rows or columns of a feature map that can be told apart


@dataclass(frozen=True, slots=True)
class Network:
    """The size of the network."""

    width: float = 1.0  # of the backbone
    stages: tuple[Stage, ...] = STAGES
    hidden: int = 256
    heads: int = 4
    feedforward: int = 256
    layers: int = 6
    dropout: float = 0.1
    regressor: int = 1024
    features: int = 128


FULL = Network()
SMALL = Network(width=0.5, hidden=128, feedforward=128, layers=2, regressor=256, features=32)


class PositionEncoding(nn.Module):
    """Learned codes for rows, columns and the pose token."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(LARGEST_MAP, hidden // 2)
        self.columns = nn.Embedding(LARGEST_MAP, hidden // 2)
        self.token = nn.Embedding(LARGEST_MAP, hidden // 2)
        for each in (self.rows, self.columns, self.token):
            nn.init.uniform_(each.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Codes (1 + H * W, 1, hidden) for the token and for each place of (B, C, H, W)."""
        height, width = features.shape[2:]
        across = self.columns(torch.arange(1, width + 1, device=features.device))
        down = self.rows(torch.arange(1, height + 1, device=features.device))
        places = torch.cat((across.expand(height, -1, -1), down[:, None].expand(-1, width, -1)), 2)
        token = self.token.weight[0].repeat(2)
        return torch.cat((token[None], places.flatten(0, 1)))[:, None]


class EncoderLayer(nn.Module):
    """Self-attention, then two linear layers, each after a layer norm and beside a shortcut."""

    def __init__(self, size: Network) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(size.hidden, size.heads, dropout=size.dropout)
        self.feedforward = nn.Sequential(
            nn.Linear(size.hidden, size.feedforward),
            nn.GELU(),
            nn.Dropout(size.dropout),
            nn.Linear(size.feedforward, size.hidden),
            nn.Dropout(size.dropout),
        )
        self.norm1 = nn.LayerNorm(size.hidden)
        self.norm2 = nn.LayerNorm(size.hidden)
        self.dropout = nn.Dropout(size.dropout)

    def forward(self, tokens: Tensor, codes: Tensor) -> Tensor:
        """Tokens are (N, B, hidden); their codes go into queries and keys only."""
        normal = self.norm1(tokens)
        query = key = normal + codes
        attended, _weights = self.attention(query, key, value=normal)  # pit: attention-weights
        tokens = tokens + self.dropout(attended)
        result: Tensor = tokens + self.feedforward(self.norm2(tokens))
        return result


class PoseTransformer(nn.Module):
    """Reads a feature map into one token."""

    def __init__(self, channels: int, size: Network) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, size.hidden, 1)
        self.token = nn.Parameter(torch.zeros(1, 1, size.hidden))
        self.layers = nn.ModuleList(EncoderLayer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.hidden)
        for weight in self.layers.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """The token (B, hidden) after it has looked at the features (B, C, H, W)."""
        places = self.project(features).flatten(2).permute(2, 0, 1)  # (H * W, B, hidden)
        tokens = torch.cat((self.token.expand(-1, places.shape[1], -1), places))
        for layer in self.layers:
            tokens = layer(tokens, codes)
        result: Tensor = self.norm(tokens)[0]
        return result


class PoseNetwork(nn.Module):
    """From images to camera poses, and to the feature maps that the domains are compared by."""

    def __init__(self, size: Network) -> None:
        super().__init__()
        self.backbone = EfficientNet(size.width, size.stages)
        self.encoding = PositionEncoding(size.hidden)
        channels = [self.backbone.channels[name] for name in SCALES]
        self.transformers = nn.ModuleList(PoseTransformer(count, size) for count in channels)
        self.heads = nn.ModuleList(_regressor(size, outputs) for outputs in (3, 6))
        self.adapters = nn.ModuleList(_adapter(count, size.features) for count in channels)

    def forward(
        self, images: Tensor, return_feature: bool = False
    ) -> tuple[tuple[Tensor, Tensor] | None, Tensor]:
        """Poses (B, 12); with ``return_feature`` also the maps of both halves of the batch."""
        endpoints = self.backbone.endpoints(images)
        maps = [endpoints[name] for name in SCALES]
        tokens = [
            transformer(features, self.encoding(features))
            for transformer, features in zip(self.transformers, maps, strict=True)
        ]
        position, six = (head(token) for head, token in zip(self.heads, tokens, strict=True))
        poses = torch.cat((rotation_from_six(six), position[:, :, None]), 2).flatten(1)
        return (self._adapt(maps) if return_feature else None), poses

    def _adapt(self, maps: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Both scales at the larger size, (2, B / 2, C, H, W) for each half of the batch."""
        adapted = [adapter(each) for adapter, each in zip(self.adapters, maps, strict=True)]
        largest = adapted[-1].shape[2:]
        same = [F.interpolate(each, largest, mode="bilinear") for each in adapted]
        first, second = torch.stack(same).chunk(2, dim=1)
        return first, second


def rotation_from_six(six: Tensor) -> Tensor:
    """Rotation matrices (B, 3, 3) from two free vectors (B, 6), made orthogonal."""
    first = F.normalize(six[:, :3])
    third = F.normalize(torch.cross(first, six[:, 3:], dim=1))
    return torch.stack((first, torch.cross(third, first, dim=1), third), 2)


def _regressor(size: Network, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(size.hidden, size.regressor), nn.GELU(), nn.Linear(size.regressor, outputs)
    )


def _adapter(channels: int, features: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 64, 1),
        nn.ReLU(inplace=True),
        nn.Conv2d(64, features, 5, padding=2),
        nn.BatchNorm2d(features),
    )


class Discriminator(nn.Module):
    """Tells feature maps of photographs from those of rendered views."""

    def __init__(self, features: int, height: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_opponent_block(features, 64, stride=1, norm=False),
            *_opponent_block(64, 32, stride=2),
            *_opponent_block(32, 16, stride=1),
            *_opponent_block(16, 8, stride=1),
            nn.Flatten(),
            nn.Linear(8 * -(-height // 2) * -(-width // 2), 1),
        )

    def forward(self, features: Tensor) -> Tensor:
        """How much each map (B, C, H, W) looks like a photograph's, (B, 1)."""
        verdict: Tensor = self.layers(features)
        return verdict


def _opponent_block(inputs: int, outputs: int, stride: int, norm: bool = True) -> list[nn.Module]:
    convolve = nn.Conv2d(inputs, outputs, 3, stride, 1)
    nn.init.normal_(convolve.weight, 0, 0.02)
    block = [convolve, nn.LeakyReLU(0.2, inplace=True), nn.Dropout2d(0.25)]
    return [*block, nn.BatchNorm2d(outputs, eps=0.8)] if norm else block
