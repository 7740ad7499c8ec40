# mypy: disable-error-code="no-untyped-def,no-untyped-call"
"""VAEs of others: supported as they are, by an adapter, or refused with one line."""

import pytest
import torch

from pitstop.core.errors import PitstopError
from pitstop.parts import TiledVae, Tiling, adapt
from pitstop.parts.tiled.quality import psnr
from pitstop.parts.vae.codecs import PhaseMemory
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae

diffusers = pytest.importorskip("diffusers")
TWO = {"block_out_channels": (8, 16), "norm_num_groups": 4}
DOWN, UP = ("DownEncoderBlock2D",) * 2, ("UpDecoderBlock2D",) * 2
FOUR = {"block_out_channels": (8, 8, 8, 8), "layers_per_block": 1, "latent_channels": 4}
WAN = {"base_dim": 8, "z_dim": 4, "dim_mult": [1, 1, 2, 2], "num_res_blocks": 1}


@pytest.fixture(autouse=True)
def _inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AutoencoderKL", {
            **TWO,
            "down_block_types": ("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
            "up_block_types": ("AttnUpDecoderBlock2D", "UpDecoderBlock2D"),
        }),
        ("AutoencoderKLFlux2", {**TWO, "down_block_types": DOWN, "up_block_types": UP}),
        ("AsymmetricAutoencoderKL", {
            "norm_num_groups": 4,
            "down_block_types": DOWN, "down_block_out_channels": (8, 16),
            "up_block_types": UP, "up_block_out_channels": (8, 16),
        }),
    ],
)  # fmt: skip
def test_what_is_built_like_autoencoder_kl_is_tiled_as_it_is(name, options):
    vae = getattr(diffusers, name)(**options).eval()
    latent = torch.randn(1, vae.config.latent_channels, 24, 20)
    tiled = TiledVae(vae, Tiling(tile=24, quiet=True))
    assert psnr(tiled.decode(latent), vae.decode(latent).sample) > 100
    assert any(step.strips > 1 for step in tiled.plan.steps)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("VQModel", {**TWO, "down_block_types": DOWN, "up_block_types": UP}, "does more"),
        ("AutoencoderKLTemporalDecoder",
         {"block_out_channels": (32, 32), "down_block_types": DOWN}, "does more"),
        ("AutoencoderKLHunyuanVideo", {**FOUR, "norm_num_groups": 4}, "takes clips"),
        ("AutoencoderKLCogVideoX", {**FOUR, "norm_num_groups": 2}, "as it is"),
        ("AutoencoderKLWan", WAN, "as it is"),
        ("AutoencoderTiny",
         {f"{half}_block_out_channels": (8,) * 4 for half in ("encoder", "decoder")}, "as it is"),
    ],
)  # fmt: skip
def test_what_cannot_be_tiled_as_it_is_is_refused_and_the_adapter_named(name, options, words):
    vae = getattr(diffusers, name)(**options)
    with pytest.raises(PitstopError, match=rf"{name} .*{words}.*: pass adapt\("):
        TiledVae(vae)


def test_autoencoder_tiny_through_the_adapter():
    channels = {f"{half}_block_out_channels": (8,) * 4 for half in ("encoder", "decoder")}
    vae = diffusers.AutoencoderTiny(**channels).eval()
    codec = adapt(vae, lambda x: vae.encode(x).latents, lambda z: vae.decode(z).sample, scale=8)
    latent, pixels = torch.randn(1, 4, 30, 26), torch.rand(1, 3, 256, 200)
    tiled = TiledVae(codec, Tiling(tile=96, quiet=True))
    assert psnr(tiled.decode(latent), vae.decode(latent).sample) > 40
    assert not tiled.plan.untiled
    assert psnr(tiled.encode(pixels), vae.encode(pixels).latents) > 40
    with pytest.raises(PitstopError, match="sides are multiples"):
        tiled.encode(torch.rand(1, 3, 250, 200))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AutoencoderKLWan", WAN),
        ("AutoencoderKLCogVideoX", {**FOUR, "norm_num_groups": 2}),
        ("AutoencoderKLHunyuanVideo", {**FOUR, "norm_num_groups": 4}),
    ],
)
def test_clips_of_others_through_the_adapter(name, options):
    vae = getattr(diffusers, name)(**options).eval()
    codec = adapt(
        vae, lambda x: vae.encode(x).latent_dist.mode(), lambda z: vae.decode(z).sample, 8, 4
    )
    latent = torch.randn(1, 4, 2, 16, 14)
    tiled = TiledVae(codec, Tiling(tile=96, quiet=True))
    assert psnr(tiled.decode(latent), vae.decode(latent).sample) > 30
    assert tiled.plan.grid.count == 4


def test_a_causal_vae_of_ones_own_carries_its_state_through_the_adapter():
    vae = VideoVae(VaeConfig((4, 8, 8), 1, 2, 4, temporal_levels=1)).eval()
    codec = adapt(vae, vae.encoder, vae.decoder, 4, 2, PhaseMemory(vae))
    latent = torch.randn(1, 4, 5, 8, 9)
    tiled = TiledVae(codec, Tiling(quiet=True))
    assert torch.allclose(tiled.decode(latent), vae.decoder(latent), atol=1e-5)
    assert tiled.plan.chunks == 4
