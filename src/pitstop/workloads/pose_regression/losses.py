"""Losses: how far a pose is off, and how far two domains of features are apart."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PoseLoss(nn.Module):
    """Distance in position and orientation, weighed by two learned uncertainties."""

    def __init__(self, position: float = -3.0, orientation: float = -6.5) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.tensor(position))
        self.orientation = nn.Parameter(torch.tensor(orientation))

    def forward(self, predicted: Tensor, true: Tensor) -> Tensor:
        """One number for poses (B, 12), each a rotation and a position side by side."""
        difference = (predicted - true).view(-1, 3, 4)
        away = torch.linalg.vector_norm(difference[:, :, 3], dim=1).mean()
        turned = torch.linalg.vector_norm(difference[:, :, :3].flatten(1), dim=1).mean()
        position: Tensor = away * torch.exp(-self.position) + self.position
        orientation: Tensor = turned * torch.exp(-self.orientation) + self.orientation
        return position + orientation


class FeatureLoss(nn.Module):
    """Equal features for equal places, yet varied and uncorrelated ones (VICReg)."""

    def __init__(self, same: float = 25.0, varied: float = 25.0, separate: float = 1.0) -> None:
        super().__init__()
        self.same, self.varied, self.separate = same, varied, separate

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """One number for two stacks of feature maps (S, B, C, H, W)."""
        invariance = F.mse_loss(first, second)
        means = [maps.flatten(0, 1).mean((2, 3)) for maps in (first, second)]  # (S * B, C)
        variance = sum(F.relu(1 - (each.var(0) + 1e-4).sqrt()).mean() for each in means)
        covariance = sum(_correlation(each) for each in means)
        return self.same * invariance + self.varied * variance + self.separate * covariance


def _correlation(means: Tensor) -> Tensor:
    """Mean square of the covariances between different channels of (N, C)."""
    centred = means - means.mean(0)
    covariance = centred.T @ centred / (len(means) - 1)
    return (covariance.square().sum() - covariance.diagonal().square().sum()) / means.shape[1]
