# mypy: disable-error-code="no-untyped-def,no-untyped-call"
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pitstop.parts import accelerate_vae
from pitstop.parts.group_norm.fuse_group_norm import Undo
from pitstop.parts.vae import exchange_trial, functions
from pitstop.parts.vae.blocks import WideHeadProcessor
from pitstop.parts.vae.functions import add_biases, add_biases_twin, fold_upsample, softmax_rows

pytest.importorskip("triton")


def nonlinearity(x):
    return x * torch.sigmoid(x)


class OldResidual(nn.Module):
    """Latent-diffusion's residual block, in its own words."""

    def __init__(self, channels, out_channels):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, out_channels)
        self.conv1 = nn.Conv2d(channels, out_channels, 3, padding=1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.dropout = nn.Dropout(0.0)
        if channels != out_channels:
            self.nin_shortcut = nn.Conv2d(channels, out_channels, 1)

    def forward(self, x, temb):
        h = nonlinearity(self.norm1(x))
        h = self.conv1(h)
        if temb is not None:
            h = h + temb[:, :, None, None]
        h = self.norm2(h)
        h = nonlinearity(h)
        h = self.conv2(self.dropout(h))
        if hasattr(self, "nin_shortcut"):
            x = self.nin_shortcut(x)
        return x + h


class OddResidual(OldResidual):
    """Looks the same, computes something else."""

    def forward(self, x, temb):
        return super().forward(x, temb) * 3


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


def test_old_latent_diffusion_blocks_are_recognised_and_odd_ones_left_alone():
    blocks = nn.ModuleList([OldResidual(4, 4), OldResidual(4, 6), OddResidual(4, 4), Upsample(4)])
    x, temb = torch.randn(1, 4, 5, 6), torch.randn(1, 6)
    calls = [(x, None), (x, None), (x, None), (x,)]
    expected = [block(*call) for block, call in zip(blocks, calls, strict=True)]
    embedded = blocks[1](x, temb)
    undo = accelerate_vae(blocks)
    names = [type(block).forward.__qualname__ for block in blocks]
    assert [name.split(".")[0] for name in names] == [
        *["residual_forward"] * 2,
        "OddResidual",
        "upsample_forward",
    ]
    for block, call, wanted in zip(blocks, calls, expected, strict=True):
        assert torch.allclose(block(*call), wanted, atol=1e-5)
    assert torch.allclose(blocks[1](x, temb), embedded, atol=1e-5)
    undo()
    for block, call, wanted in zip(blocks, calls, expected, strict=True):
        assert torch.equal(block(*call), wanted)


class Attention(nn.Module):
    """Latent-diffusion's attention: two products and a softmax, one head."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (each(h).flatten(2) for each in (self.q, self.k, self.v))
        weights = torch.softmax(q.transpose(1, 2) @ k * x.shape[1] ** -0.5, 2)
        return x + self.proj_out((v @ weights.transpose(1, 2)).view_as(x))


@pytest.mark.parametrize("channels", [8, 264])  # within flash attention's reach, and beyond it
def test_old_attention_is_exchanged(channels):
    block, x = nn.Sequential(Attention(channels)), torch.randn(2, channels, 3, 5)
    expected = block(x)
    undo = accelerate_vae(block)
    assert type(block[0]).forward.__qualname__.startswith("attention_forward")
    assert torch.allclose(block(x), expected, atol=1e-5)
    undo()
    assert torch.equal(block(x), expected)


def test_a_diffusers_vae_keeps_its_numbers_and_comes_back():
    diffusers = pytest.importorskip("diffusers")
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 264),  # a head of 264 is too wide for flash attention
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        layers_per_block=1,
    ).eval()
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        expected, names = vae(x).sample, list(vae.state_dict())
        times_ms = iter(range(100, 0, -10))
        undo = accelerate_vae(vae, measure=lambda: vae(x), clock=lambda _: next(times_ms))
        assert torch.allclose(vae(x).sample, expected, atol=1e-4)
        assert list(vae.state_dict()) == names
        processor = vae.decoder.mid_block.attentions[0].processor
        assert isinstance(processor, WideHeadProcessor)
        decode = torch.compile(vae.decoder, fullgraph=True, backend="eager")
        latent = torch.randn(1, 4, 4, 4)
        assert torch.allclose(decode(latent), vae.decoder(latent), atol=1e-4)
        vae.decoder.up_blocks[0].upsamplers[0].conv.weight.zero_()  # the folded kernel is renewed
        changed = vae(x).sample
        undo()
        assert torch.allclose(vae(x).sample, changed, atol=1e-4)
    assert str(undo).splitlines()[0] == "fused norm: 100.00 to 90.00 ms, 1.11x"
    assert vae.decoder.conv_in.weight.is_contiguous()


def test_a_step_that_gains_nothing_is_left_alone_and_said():
    blocks = nn.ModuleList([OldResidual(4, 4), Upsample(4), nn.Conv2d(4, 4, 1)])
    classes = [type(each) for each in blocks.modules()]
    times_ms = iter([10.0, 9.0, 8.9, 9.5, 4.5])  # fused norm, channels-last, residual, upsampling
    undo = accelerate_vae(blocks, measure=lambda: None, clock=lambda _: next(times_ms))
    assert [(each.name, each.kept) for each in undo.record] == [
        ("fused norm", True),
        ("channels-last", False),
        ("one pass for biases and residual: OldResidual", False),
        ("upsampling folded into its convolution: Upsample", True),
    ]
    assert blocks[2].weight.is_contiguous()
    assert type(blocks[0]).forward.__qualname__ == "forward"  # its own, with the norm's SiLU
    assert "channels-last: 9.00 to 8.90 ms, 1.01x: left alone" in str(undo)
    undo()
    assert [type(each) for each in blocks.modules()] == classes
    assert str(accelerate_vae(nn.ModuleList([nn.Linear(1, 1)]))) == "nothing was exchanged"


SMALL = {
    "AutoencoderKL": {"block_out_channels": (8,), "norm_num_groups": 4, "latent_channels": 4},
    "AutoencoderKLWan": {"base_dim": 4, "z_dim": 16, "dim_mult": [1, 1], "num_res_blocks": 1,
                         "temperal_downsample": [False]},
    "AutoencoderDC": {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8),
                      "encoder_layers_per_block": (1, 1), "decoder_layers_per_block": (1, 1),
                      "encoder_block_types": "ResBlock", "decoder_block_types": "ResBlock",
                      "latent_channels": 4, "attention_head_dim": 8},
    "AutoencoderKLLTXVideo": {"block_out_channels": (8, 8), "latent_channels": 8,
                              "layers_per_block": (1, 1, 1), "decoder_block_out_channels": (8, 8),
                              "decoder_layers_per_block": (1, 1, 1),
                              "spatio_temporal_scaling": (True, False),
                              "decoder_spatio_temporal_scaling": (True, False),
                              "decoder_inject_noise": (False,) * 3,
                              "upsample_residual": (False,) * 2, "upsample_factor": (1, 1)},
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_what_decodes_latents_can_be_timed_by_itself(name):
    diffusers = pytest.importorskip("diffusers")
    vae = getattr(diffusers, name)(**SMALL[name]).eval()
    runs = exchange_trial.decodings(vae, sides=(16, 48))
    assert [(shape, run().sample.shape[-1]) for shape, run in runs.items()] == [
        ("16 x 16", 16),
        ("48 x 48", 48),
    ]
    times_ms = iter(range(100, 0, -10))
    undo = accelerate_vae(vae, measure=runs["16 x 16"], clock=lambda _: next(times_ms))
    assert undo.record or name == "AutoencoderKLLTXVideo"
    assert runs["16 x 16"]().sample.isfinite().all()


def test_a_picture_that_cannot_be_decoded_is_not_timed():
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = nn.Conv2d(4, 3, 1)

        def decode(self, latent):
            if latent.shape[-1] > 16:
                raise torch.OutOfMemoryError
            return (self.decoder(latent),)

    assert list(exchange_trial.decodings(Small(), sides=(16, 32))) == ["16 x 16"]
    assert list(exchange_trial.decodings(Small(), sides=(32,))) == ["8 x 8"]


def test_what_is_no_vae_cannot():
    assert exchange_trial.decodings(nn.Conv2d(1, 1, 1)) == {}
    assert exchange_trial.decodings(nn.Linear(1, 1)) == {}


def tried(small_ms, large_ms):
    """What is kept of an exchange that takes so long, where both sizes took 10 ms."""
    times_ms = iter([10.0, 10.0, small_ms, large_ms])

    def clock(_):
        found = next(times_ms)
        if found is None:
            raise RuntimeError("no kernel for this")
        return found

    undone = []
    trial = exchange_trial.Trial({"small": print, "large": print}, clock)
    trial.attempt("norm", lambda: Undo((lambda: undone.append(1),)))
    assert [each.kept for each in trial.done.record] == [not undone] * 2
    return str(trial.done)


def test_what_gains_in_one_size_must_not_lose_in_another():
    kept = "norm, small: 10.00 to 9.95 ms, 1.01x\nnorm, large: 10.00 to 5.00 ms, 2.00x"
    assert tried(9.95, 5.0) == kept
    assert tried(10.5, 5.0).count("left alone") == 2
    assert tried(10.0, 9.9).count("left alone") == 2


def test_what_fails_in_the_whole_is_left_alone():
    fails = "norm, large: fails: left alone"
    assert tried(5.0, None) == f"norm, small: 10.00 to 5.00 ms, 2.00x: left alone\n{fails}"


def test_folded_upsampling_is_the_same_convolution():
    x, weight = torch.randn(2, 3, 4, 5), torch.randn(6, 3, 3, 3)
    expected = F.conv2d(F.interpolate(x, scale_factor=2.0, mode="nearest"), weight, padding=1)
    found = F.conv_transpose2d(x, fold_upsample(weight), stride=2, padding=1)
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_bias_kernel_equals_twin(monkeypatch, device, layout):
    monkeypatch.setattr(functions, "_kernel_runs", lambda _: True)
    x, residual = torch.randn(2, 2, 5, 3, 7, device=device).unbind()
    bias, more = torch.randn(2, 5, device=device).unbind()
    x = x.contiguous(memory_format=layout)
    for arguments in ((residual, bias, more, 0.5), (None, bias, None, 1.0)):
        expected = add_biases_twin(x, *arguments)
        assert torch.allclose(add_biases(x.clone(), *arguments), expected, atol=1e-5)


def test_softmax_kernel_equals_torch(monkeypatch, device):
    monkeypatch.setattr(functions, "SOFTMAX_BLOCK", 16)
    scores = torch.randn(3, 37, device=device) * 20
    scores[1, :30] = float("-inf")
    expected = torch.softmax(scores, 1)
    assert torch.allclose(softmax_rows(scores, torch.float32), expected, atol=1e-6)
