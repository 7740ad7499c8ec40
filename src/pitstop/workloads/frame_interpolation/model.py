"""VQ-FIGAN: the encoder, the codebook, and the autoencoder around them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .blocks import Downsample, group_norm, middle_blocks, residual_blocks, swish
from .config import ModelConfig, NetworkConfig
from .decoder import Decoder
from .loss import VQLPIPSWithDiscriminator

Batch = dict[str, Tensor]
Logs = dict[str, Tensor]

COMMITMENT = 0.25  # weight of the codebook's own term


class Encoder(nn.Module):
    """Frame to latent, halving the size at every level."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(3, config.ch, 3, padding=1)
        self.levels = nn.ModuleList()
        width = config.ch
        for multiple in config.ch_mult:
            level = config.ch * multiple
            blocks = residual_blocks(width, level, config.num_res_blocks)
            self.levels.append(nn.Sequential(blocks, Downsample(level)))
            width = level
        self.middle = middle_blocks(width)
        self.norm_out = group_norm(width)
        self.conv_out = nn.Conv2d(width, config.z_channels, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The latent, and one feature map per level to condition the decoder with."""
        features = []
        hidden = self.conv_in(x)
        for level in self.levels:
            hidden = level(hidden)
            features.append(hidden)
        hidden = self.middle(hidden)  # pit: middle-for-nobody
        return self.conv_out(swish(self.norm_out(hidden))), features


class VectorQuantizer(nn.Module):
    """Replaces each latent vector by the nearest of the codebook."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(entries, width)
        self.embedding.weight.data.uniform_(-1.0 / entries, 1.0 / entries)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The quantised latent, with gradients passed straight through, and the loss."""
        z = z.permute(0, 2, 3, 1).contiguous()  # (B, H, W, C)
        vectors, book = z.view(-1, z.shape[-1]), self.embedding.weight
        distances = (vectors**2).sum(1, keepdim=True) + (book**2).sum(1) - 2 * vectors @ book.T
        quantised = self.embedding(distances.argmin(1)).view(z.shape)
        loss = F.mse_loss(quantised.detach(), z) + COMMITMENT * F.mse_loss(quantised, z.detach())
        quantised = z + (quantised - z).detach()
        return quantised.permute(0, 3, 1, 2).contiguous(), loss


class VQFlowNet(nn.Module):
    """The autoencoder with its loss, trained by two optimizers in turn."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        z_channels, embed_dim = config.ddconfig.z_channels, config.embed_dim
        self.encoder = Encoder(config.ddconfig)
        self.decoder = Decoder(config.ddconfig)
        self.loss = VQLPIPSWithDiscriminator(config.lossconfig)
        self.quantize = VectorQuantizer(config.n_embed, embed_dim)
        self.quant_conv = nn.Conv2d(z_channels, embed_dim, 1)
        self.post_quant_conv = nn.Conv2d(embed_dim, z_channels, 1)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The quantised latent, the codebook loss and the features."""
        hidden, features = self.encoder(x)
        quantised, loss = self.quantize(self.quant_conv(hidden))
        return quantised, loss, features

    def decode(self, quantised: Tensor, previous: Tensor, following: Tensor) -> Tensor:
        """The middle frame from its latent and its neighbours."""
        features_previous = self.encode(previous)[-1]  # pit: encode-previous
        features_next = self.encode(following)[-1]
        z = self.post_quant_conv(quantised)
        features = (features_previous, features_next)
        frame: Tensor = self.decoder(z, (previous, following), features)
        return frame

    def forward(self, x: Tensor, previous: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
        """The reconstructed middle frame and the codebook loss."""
        quantised, codebook_loss, _ = self.encode(x)
        return self.decode(quantised, previous, following), codebook_loss

    def training_step(self, batch: Batch, optimizer_index: int, step: int) -> tuple[Tensor, Logs]:
        """The loss of one of the two optimizers, each after a forward pass of its own."""
        x = get_input(batch, "image")
        previous, following = get_input(batch, "prev_frame"), get_input(batch, "next_frame")
        reconstruction, codebook_loss = self(x, previous, following)
        last_layer = self.decoder.conv_out.weight
        loss, logs = self.loss(codebook_loss, x, reconstruction, optimizer_index, step, last_layer)
        return loss, logs

    @torch.no_grad()
    def validation_step(self, batch: Batch) -> Tensor:
        """The mean squared error of each sample, for frames in 0 to 1."""
        x = get_input(batch, "image")
        reconstruction, _ = self(x, get_input(batch, "prev_frame"), get_input(batch, "next_frame"))
        error: Tensor = (reconstruction.clamp(-1, 1) - x) / 2
        return error.square().mean(dim=(1, 2, 3))


def get_input(batch: Batch, key: str) -> Tensor:
    """One of the batch's frames, channels first."""
    return batch[key].permute(0, 3, 1, 2).to(memory_format=torch.contiguous_format).float()
