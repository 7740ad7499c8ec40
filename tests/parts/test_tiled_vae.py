# mypy: disable-error-code="no-untyped-def,no-untyped-call"
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread

import pytest
import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.parts import accelerate_vae
from pitstop.parts.group_norm import shared_norms
from pitstop.parts.group_norm.shared_norms import (
    Sample,
    SharedNorms,
    _statistics,
    scale_shift,
    scale_shift_twin,
)
from pitstop.parts.peak import peak_of
from pitstop.parts.tiled.quality import psnr, seam
from pitstop.parts.tiled.tiled_vae import TiledVae, Tiling, adapt, enable_tiling
from pitstop.parts.vae.middle_attention import averaged
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _inference():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def kl_vae():
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 16, 16),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        norm_num_groups=4,
        layers_per_block=1,
        sample_size=64,
    ).eval()


class Convolutions(nn.Module):
    """A VAE of somebody else: four times smaller, no norm, no attention."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 4, stride=4)
        self.blur = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 4, stride=4)

    def encode(self, x):
        return self.blur(self.down(x))

    def decode(self, z):
        return self.up(self.blur(z))


def convolutions():
    vae = Convolutions()
    return vae, adapt(vae, vae.encode, vae.decode, scale=4)


@pytest.mark.parametrize("size", [(40, 29), (17, 64)])
def test_a_module_of_ones_own_is_tiled_without_a_trace(size):
    vae, codec = convolutions()
    latent, pixels = torch.randn(2, 4, *size), torch.randn(1, 3, 4 * size[0] + 3, 4 * size[1] + 1)
    tiled = TiledVae(codec, Tiling(tile=64, quiet=True))
    assert torch.allclose(tiled.decode(latent), vae.decode(latent), atol=1e-5)
    assert not tiled.plan.untiled
    assert torch.allclose(tiled.encode(pixels), vae.encode(pixels), atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_the_batch_of_tiles_changes_nothing(batch):
    vae, codec = convolutions()
    latent = torch.randn(2, 4, 30, 44)
    tiled = TiledVae(codec, Tiling(tile=64, batch=batch, quiet=True))
    assert torch.allclose(tiled.decode(latent), vae.decode(latent), atol=1e-5)
    assert tiled.plan.batch == batch


def test_tiles_of_diffusers_agree_better_than_its_own(kl_vae):
    latent = torch.randn(1, 4, 40, 36)
    untiled = kl_vae.decode(latent).sample
    kl_vae.enable_tiling()
    stock = psnr(kl_vae.decode(latent).sample, untiled)
    kl_vae.disable_tiling()
    exact = TiledVae(kl_vae, Tiling(tile=64, quiet=True)).decode(latent)
    assert psnr(exact, untiled) > stock + 50
    tiled = TiledVae(kl_vae, Tiling(tile=64, overlap=16, sample=4.0, quiet=True))
    found = tiled.decode(latent)
    assert not tiled.plan.untiled
    assert psnr(found, untiled) > stock + 10
    assert seam(found, untiled, tiled.plan.grid, 4) < 2
    assert not any("_pitstop" in name for each in kl_vae.modules() for name in vars(each))


def test_tiled_encode_of_an_odd_size_has_the_shape_and_values_of_untiled(kl_vae):
    pixels = torch.rand(1, 3, 163, 129) * 2 - 1
    moments = kl_vae._encode(pixels)
    tiling = Tiling(tile=64, overlap=16, sample=4.0, quiet=True)
    found = TiledVae(kl_vae, tiling).encode(pixels)
    assert found.shape == moments.shape
    assert psnr(found, moments) > 55  # 40 without the pixels beyond the last cell


def test_enabled_tiling_serves_the_vae_s_own_methods_and_comes_off(kl_vae):
    latent = torch.randn(2, 4, 30, 34)
    expected = kl_vae.decode(latent).sample
    undo = enable_tiling(kl_vae, Tiling(tile=64, overlap=16, quiet=True))
    assert psnr(kl_vae.decode(latent).sample, expected) > 30
    assert kl_vae.decode(latent, return_dict=False)[0].shape == expected.shape
    assert kl_vae.encode(expected).latent_dist.mean.shape == latent.shape
    with pytest.raises(PitstopError, match="replaced already"):
        enable_tiling(kl_vae)
    undo()
    assert torch.equal(kl_vae.decode(latent).sample, expected)


@pytest.mark.parametrize("share", [1.2, 0.95, 0.8, 0.7, 0.6])
def test_the_peak_stays_within_the_budget(kl_vae, share):
    latent = torch.randn(1, 4, 56, 60)
    weights = sum(each.nbytes for each in kl_vae.parameters()) + latent.nbytes
    untiled = peak_of(lambda: kl_vae.decode(latent), CPU).most_bytes
    budget = weights + int(share * untiled)
    tiled = TiledVae(kl_vae, Tiling(budget_bytes=budget, quiet=True))
    tiled.decode(latent)  # the plan is made, and its measuring over
    true = peak_of(lambda: tiled.decode(latent), CPU).most_bytes + weights
    assert all(step.strips == 1 for step in tiled.plan.steps) == (share > 1)
    assert tiled.plan.predicted_bytes <= budget
    assert true <= budget


def test_says_its_plan_and_goes_on_smaller_when_memory_runs_out(capsys):
    vae, _ = convolutions()
    calls = []

    def decode(latent):
        calls.append(latent.shape[-1])
        if latent.shape[-1] == 60:  # the whole picture
            raise torch.OutOfMemoryError("no room")
        many = vae.decode(latent).repeat(1, 20, 1, 1)  # what a decoder needs on its way
        return many.unflatten(1, (20, 3)).mean(1)

    latent = torch.randn(1, 4, 60, 60)
    found = TiledVae(adapt(vae, vae.encode, decode, scale=4)).decode(latent)
    assert torch.allclose(found, vae.decode(latent), atol=1e-5)
    said = capsys.readouterr().err
    assert "untiled, 240x240" in said
    assert "out of memory: trying again within" in said
    assert "2 tiles" in said


def test_offloaded_weights_come_back_and_give_the_same(kl_vae):
    latent = torch.randn(1, 4, 20, 24)
    expected = TiledVae(kl_vae, Tiling(tile=64, overlap=16, batch=1, quiet=True)).decode(latent)
    tiled = TiledVae(kl_vae, Tiling(tile=64, overlap=16, batch=1, offload_weights=True, quiet=True))
    assert torch.equal(tiled.decode(latent), expected)


@pytest.fixture(scope="module")
def clip_vae():
    torch.manual_seed(0)
    vae = VideoVae(VaeConfig((4, 8, 8), 1, 2, 4, temporal_levels=1)).eval()
    with torch.no_grad():
        for each in vae.parameters():
            if each.dim() == 1:
                each.add_(torch.randn_like(each) * 0.1)
    return vae


@pytest.mark.parametrize("frames", [1, 2, 9])
def test_chunks_in_time_carry_their_state_exactly(clip_vae, frames):
    latent, clip = torch.randn(1, 4, 5, 8, 9), torch.randn(1, 3, 9, 32, 36)
    tiled = TiledVae(clip_vae, Tiling(frames=frames, quiet=True))
    expected = clip_vae.decoder(latent)
    assert torch.allclose(tiled.decode(latent), expected, atol=1e-5)
    assert tiled.plan.chunks == {1: 4, 2: 2, 9: 1}[frames]
    assert torch.allclose(tiled.encode(clip), clip_vae.encoder(clip).chunk(2, dim=1)[0], atol=1e-5)
    in_tiles = [
        TiledVae(clip_vae, Tiling(tile=24, overlap=8, frames=each, sample=0, quiet=True))
        for each in (frames, 9)
    ]
    assert torch.allclose(*(each.decode(latent) for each in in_tiles), atol=1e-5)


def test_an_accelerated_clip_keeps_its_numbers_and_comes_back(clip_vae):
    latent, clip = torch.randn(2, 4, 4, 8, 9), torch.randn(1, 3, 5, 32, 36)
    decoded, encoded = clip_vae.decode(latent), clip_vae.encode(clip)
    undo = accelerate_vae(clip_vae)
    kinds = {type(each).forward.__name__ for each in clip_vae.modules()}
    assert {"convolve", "add_residual", "grow", "look_around"} <= kinds
    assert torch.allclose(clip_vae.decode(latent), decoded, atol=1e-4)
    assert torch.allclose(clip_vae.encode(clip), encoded, atol=1e-4)
    undo()
    assert torch.equal(clip_vae.decode(latent), decoded)


def test_norms_know_the_picture_after_a_sample_of_all_of_it():
    norm, x = nn.GroupNorm(2, 6), torch.randn(1, 6, 12, 10) * 2 + 3
    expected = norm(x)
    norms = SharedNorms()
    undo = norms.attach([norm])
    for half in (slice(0, 6), slice(6, 12)):  # in two shares
        norms.sample = Sample((6, 10), (6, 10), ((0, 0),))
        norm(x[:, :, half])
    norms.sample = None
    assert torch.allclose(norm(x[:, :, :4]), expected[:, :, :4], atol=1e-5)
    undo()
    assert type(norm) is nn.GroupNorm
    assert not torch.allclose(norm(x[:, :, :4]), expected[:, :, :4], atol=1e-2)


def test_known_statistics_by_kernel_equal_the_twin(monkeypatch, device):
    pytest.importorskip("triton")
    monkeypatch.setattr(shared_norms, "_kernel_runs", lambda _: True)
    gain, offset = torch.randn(2, 2, 6, device=device).unbind()
    x = torch.randn(4, 6, 5, 7, device=device)
    for each in (x, x.contiguous(memory_format=torch.channels_last), x[..., 2:]):
        expected = scale_shift_twin(each, gain, offset, True)
        assert torch.allclose(scale_shift(each, gain, offset, True), expected, atol=1e-5)
    strided = torch.randn(35, 2, 6, device=device).permute(1, 2, 0)  # as blocks are gathered
    bias = torch.randn(6, device=device)
    found = _statistics(strided, 3, 1e-6, bias)
    monkeypatch.undo()
    expected = _statistics(strided.cpu(), 3, 1e-6, bias.cpu())
    assert torch.allclose(found.mean.cpu(), expected.mean, atol=1e-5)
    assert torch.allclose(found.variance.cpu(), expected.variance, rtol=1e-4)


def test_keys_are_averaged_only_in_large_pictures(monkeypatch):
    x = torch.randn(1, 2, 9, 12)
    assert averaged(x) is x
    monkeypatch.setattr("pitstop.parts.vae.middle_attention.MOST_KEYS", 30)
    assert averaged(x).shape == (1, 2, 5, 6)


@pytest.mark.parametrize(
    ("tiling", "words"),
    [
        (Tiling(tile=32, overlap=32), "tile is 32: pass more than its overlap"),
        (Tiling(tile=2), "at least 4 pixels"),
        (Tiling(budget_bytes=1000), "budget_bytes is 1000 B, but tiles of"),
        (Tiling(batch=0), "pass at least 1"),
        (Tiling(share=0), "share is 0: pass more than 0"),
        (Tiling(sample=-1), "sample is -1"),
    ],
)
def test_a_tiling_that_cannot_be_is_refused(tiling, words):
    _, codec = convolutions()
    with pytest.raises(PitstopError, match=words):
        TiledVae(codec, tiling).decode(torch.randn(1, 4, 40, 40))


def test_wrong_inputs_and_vaes_are_refused(clip_vae):
    vae, codec = convolutions()
    tiled = TiledVae(codec, Tiling(quiet=True))
    with pytest.raises(PitstopError, match="4 dimensions"):
        tiled.decode(torch.randn(4, 40, 40))
    with pytest.raises(PitstopError, match=r"torch\.float64, the VAE torch\.float32"):
        tiled.decode(torch.randn(1, 4, 40, 40).double())
    with pytest.raises(PitstopError, match="at least 4 pixels"):
        tiled.encode(torch.randn(1, 3, 3, 40))
    with pytest.raises(PitstopError, match="pass 2 k"):
        TiledVae(clip_vae).encode(torch.randn(1, 3, 4, 32, 32))
    with pytest.raises(PitstopError, match="pass adapt"):
        TiledVae(nn.Linear(2, 2))
    wrong = adapt(vae, vae.encode, vae.decode, scale=8)
    with pytest.raises(PitstopError, match="pass the scale"):
        TiledVae(wrong, Tiling(tile=128, quiet=True)).decode(torch.randn(1, 4, 40, 40))


def test_two_decodes_at_once_keep_to_their_own_statistics(kl_vae):
    latents = [torch.randn(1, 4, 40, 36), 3 + 2 * torch.randn(1, 4, 40, 36)]
    tiled = [TiledVae(kl_vae, Tiling(tile=64, overlap=16, sample=4.0, quiet=True)) for _ in latents]
    expected = [each.decode(latent) for each, latent in zip(tiled, latents, strict=True)]
    together, found = Barrier(len(latents), timeout=120), {}

    def in_step(*_):  # both threads enter each convolution at once, until one of them is done
        if len(found) == 0:
            with suppress(BrokenBarrierError):
                together.wait()

    def decode(place):
        with torch.no_grad():
            found[place] = tiled[place].decode(latents[place])
        together.abort()

    convolutions = [each for each in kl_vae.decoder.modules() if isinstance(each, nn.Conv2d)]
    hooks = [each.register_forward_pre_hook(in_step) for each in convolutions]
    threads = [Thread(target=decode, args=(place,)) for place in range(len(latents))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in hooks:
        each.remove()
    for place, wanted in enumerate(expected):
        assert torch.equal(found[place], wanted)
    assert not any("_pitstop" in name for each in kl_vae.modules() for name in vars(each))
    assert {type(each) for each in kl_vae.modules() if isinstance(each, nn.GroupNorm)} == {
        nn.GroupNorm
    }
