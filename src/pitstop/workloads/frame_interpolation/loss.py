"""Pixel, perceptual, codebook and adversarial loss, with the networks they need."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import LossConfig

Logs = dict[str, Tensor]

VGG_STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # width multiple and convolutions
CHANNEL_SHIFT = (-0.030, -0.088, -0.188)  # of frames in -1 to 1, as VGG expects them
CHANNEL_SCALE = (0.458, 0.448, 0.450)


class LPIPS(nn.Module):
    """Distance of VGG-16 features, frozen; random ones, as weights cannot be had offline."""

    shift: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stages, self.weights = nn.ModuleList(), nn.ModuleList()
        channels = 3
        for multiple, count in VGG_STAGES:
            stage = nn.Sequential(nn.MaxPool2d(2) if self.stages else nn.Identity())
            for _ in range(count):
                stage.extend([nn.Conv2d(channels, width * multiple, 3, padding=1), nn.ReLU()])
                channels = width * multiple
            self.stages.append(stage)
            self.weights.append(nn.Conv2d(channels, 1, 1, bias=False))
        self.register_buffer("shift", torch.tensor(CHANNEL_SHIFT)[:, None, None])
        self.register_buffer("scale", torch.tensor(CHANNEL_SCALE)[:, None, None])
        self.apply(init_features)
        self.requires_grad_(False)

    def forward(self, real: Tensor, fake: Tensor) -> Tensor:
        """One number per sample: (B, 1, 1, 1)."""
        total = real.new_zeros(real.shape[0], 1, 1, 1)
        pairs = zip(self.features(real), self.features(fake), self.weights, strict=True)
        for real_features, fake_features, weight in pairs:
            difference = (F.normalize(real_features) - F.normalize(fake_features)) ** 2
            total = total + weight(difference).mean(dim=(2, 3), keepdim=True)
        return total

    def features(self, x: Tensor) -> list[Tensor]:
        """The output of each stage."""
        x = (x - self.shift) / self.scale
        return list(itertools.accumulate(self.stages, lambda x, stage: stage(x), initial=x))[1:]


class NLayerDiscriminator(nn.Sequential):
    """PatchGAN: a verdict for every patch."""

    def __init__(self, width: int) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
        for multiple, stride in ((2, 2), (4, 2), (8, 1)):
            narrow, wide = width * multiple // 2, width * multiple
            conv = nn.Conv2d(narrow, wide, 4, stride=stride, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(wide), nn.LeakyReLU(0.2)]
        super().__init__(*layers, nn.Conv2d(width * 8, 1, 4, padding=1))


class VQLPIPSWithDiscriminator(nn.Module):
    """The losses of both optimizers."""

    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        self.config = config
        self.perceptual_loss = LPIPS(config.perceptual_width).eval()
        self.discriminator = NLayerDiscriminator(config.disc_ndf).apply(init_discriminator)

    def forward(
        self,
        codebook_loss: Tensor,
        x: Tensor,
        reconstruction: Tensor,
        optimizer_index: int,
        step: int,
        last_layer: Tensor,
    ) -> tuple[Tensor, Logs]:
        """The autoencoder's loss for optimizer 0, the discriminator's for optimizer 1."""
        config, pixel = self.config, (x - reconstruction).abs()
        perceptual = self.perceptual_loss(x, reconstruction)  # pit: perceptual-for-nobody
        nll = (pixel + config.perceptual_weight * perceptual).mean()
        factor = 0.0 if step < config.disc_start else 1.0
        if optimizer_index == 0:
            adversarial = -self.discriminator(reconstruction).mean()  # pit: generator-times-zero
            weight = config.disc_weight * adaptive_weight(nll, adversarial, last_layer)
            loss = nll + weight * factor * adversarial + config.codebook_weight * codebook_loss
            logs = {"total_loss": loss, "nll_loss": nll, "quant_loss": codebook_loss}
            return loss, {**logs, "g_loss": adversarial, "d_weight": weight}
        real = self.discriminator(x.detach())
        fake = self.discriminator(reconstruction.detach())
        loss = factor * hinge_loss(real, fake)  # pit: discriminator-times-zero
        return loss, {"disc_loss": loss, "logits_real": real.mean(), "logits_fake": fake.mean()}


def adaptive_weight(nll: Tensor, adversarial: Tensor, last_layer: Tensor) -> Tensor:
    """How much to scale the adversarial gradient to match the others at the last layer."""
    (nll_gradient,) = torch.autograd.grad(nll, last_layer, retain_graph=True)
    (gan_gradient,) = torch.autograd.grad(adversarial, last_layer, retain_graph=True)
    weight: Tensor = nll_gradient.norm() / (gan_gradient.norm() + 1e-4)
    return weight.clamp(0.0, 1e4).detach()


def hinge_loss(real: Tensor, fake: Tensor) -> Tensor:
    """Push real verdicts above 1 and fake ones below -1."""
    return 0.5 * (F.relu(1.0 - real).mean() + F.relu(1.0 + fake).mean())


def init_features(module: nn.Module) -> None:
    """Random VGG filters that keep the variance, and non-negative stage weights."""
    if isinstance(module, nn.Conv2d) and module.bias is not None:
        nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        nn.init.uniform_(module.weight, 0.0, 2.0 / len(VGG_STAGES))


def init_discriminator(module: nn.Module) -> None:
    """The usual initialisation of a PatchGAN."""
    if isinstance(module, nn.Conv2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
