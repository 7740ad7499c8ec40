"""The autoencoder's modules after the pit stop: the same weights, names and results, sooner."""

import torch
from torch import Tensor, nn

from pitstop.parts import dsepconv, group_norm_silu
from pitstop.parts.windows.attention import window_attention

from .attention import ResidualAttention
from .blocks import ResidualBlock
from .decoder import Decoder
from .loss import Logs, VQLPIPSWithDiscriminator, adaptive_weight, hinge_loss
from .model import VectorQuantizer, VQFlowNet

LAYOUT = torch.channels_last


class Network(VQFlowNet):
    """Encodes the three frames in one call; the neighbours give their features and no more."""

    def forward(self, x: Tensor, previous: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
        """The reconstructed middle frame and the codebook loss."""
        encoder, features = self.encoder, []
        hidden = encoder.conv_in(torch.cat((x, previous, following)))
        for level in encoder.levels:
            hidden = level(hidden)
            features.append(hidden[len(x) :].chunk(2))
        hidden = norm_swish(encoder.norm_out, encoder.middle(hidden[: len(x)]))
        quantised, codebook_loss = self.quantize(self.quant_conv(encoder.conv_out(hidden)))
        earlier, later = (list(each) for each in zip(*features, strict=True))
        z = self.post_quant_conv(quantised)
        frame: Tensor = self.decoder(z, (previous, following), (earlier, later))
        return frame, codebook_loss


class Quantizer(VectorQuantizer):
    """Looks for the nearest entry in float32 always: a rounded distance means another entry."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The quantised latent and the loss."""
        with torch.autocast(z.device.type, enabled=False):
            return super().forward(z.float())


class WarpingDecoder(Decoder):
    """Warps by a kernel that runs on any GPU and in any layout: nothing to fall back to."""

    def warp(self, h: Tensor, previous: Tensor, following: Tensor) -> Tensor:
        """The sum of both neighbours, each moved to where the middle frame needs it."""
        mask = self.mask(h)
        earlier: Tensor = dsepconv.dsepconv(
            self.pad(previous),
            self.vertical_previous(h),
            self.horizontal_previous(h),
            self.offset_x_previous(h),
            self.offset_y_previous(h),
            mask,
        )
        return earlier + dsepconv.dsepconv(
            self.pad(following),
            self.vertical_next(h),
            self.horizontal_next(h),
            self.offset_x_next(h),
            self.offset_y_next(h),
            1.0 - mask,
        )


class FusedAttention(ResidualAttention):
    """Scores never leave the chip."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Windows in, windows out: (B, X, Y, w, w, C)."""
        query = self.norm(x)
        source = query if context is None else self.norm(context)
        q, k, v = (
            self._split_heads(project(tokens))
            for project, tokens in ((self.to_q, query), (self.to_k, source), (self.to_v, source))
        )
        bias = self.position_bias(self.position_index).permute(2, 0, 1)  # (heads, w * w, w * w)
        out = window_attention(q, k, v, bias, scale=self.scale)
        mixed: Tensor = self.to_out(out.transpose(1, 2).reshape(x.shape))
        return mixed + x


class FusedBlock(ResidualBlock):
    """Norm and nonlinearity are one pass."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W)."""
        hidden = self.conv1(norm_swish(self.norm1, x))
        hidden = self.conv2(norm_swish(self.norm2, hidden))
        out: Tensor = self.shortcut(x) + hidden
        return out


def norm_swish(norm: nn.GroupNorm, x: Tensor) -> Tensor:
    """``swish(norm(x))``."""
    return group_norm_silu(x, norm.num_groups, norm.weight, norm.bias, norm.eps)


class Loss(VQLPIPSWithDiscriminator):
    """Computes a term only once it counts."""

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
        config = self.config
        if optimizer_index == 1:
            real, fake = self.discriminator(x), self.discriminator(reconstruction.detach())
            loss = hinge_loss(real, fake)
            return loss, {"disc_loss": loss, "logits_real": real.mean(), "logits_fake": fake.mean()}
        perceptual = self.perceptual_loss(x, reconstruction)
        nll = ((x - reconstruction).abs() + config.perceptual_weight * perceptual).mean()
        loss = nll + config.codebook_weight * codebook_loss
        logs = {"nll_loss": nll, "quant_loss": codebook_loss}
        if is_adversarial(self, step):
            adversarial = -self.discriminator(reconstruction).mean()
            weight = config.disc_weight * adaptive_weight(nll, adversarial, last_layer)
            loss = loss + weight * adversarial
            logs |= {"g_loss": adversarial, "d_weight": weight}
        return loss, {"total_loss": loss, **logs}


def is_adversarial(loss: VQLPIPSWithDiscriminator, step: int) -> bool:
    """Whether the GAN has joined in."""
    return step >= loss.config.disc_start


FASTER: dict[type, type] = {
    VQFlowNet: Network,
    VectorQuantizer: Quantizer,
    Decoder: WarpingDecoder,
    ResidualAttention: FusedAttention,
    ResidualBlock: FusedBlock,
    VQLPIPSWithDiscriminator: Loss,
}


def faster(model: VQFlowNet) -> None:
    """Give each module its class from above, and pixels their layout; weights stay as they are."""
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))
    model.to(memory_format=LAYOUT)  # type: ignore[call-overload]
