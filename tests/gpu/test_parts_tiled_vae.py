# mypy: disable-error-code="no-untyped-def,no-untyped-call"
import pytest
import torch

from pitstop.parts import accelerate_vae
from pitstop.parts.group_norm.shared_norms import scale_shift, scale_shift_twin
from pitstop.parts.tiled.quality import psnr
from pitstop.parts.tiled.tiled_vae import TiledVae, Tiling
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.fixture(autouse=True)
def _inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    "shape", [(6, 96, 33, 35), (2, 512, 3, 17, 19), (1, 128, 300, 301)], ids=str
)
def test_known_statistics_by_kernel_equal_the_twin(shape, channels_last, dtype):
    x = torch.randn(shape, device="cuda").to(dtype)
    x = x.contiguous(memory_format=LAYOUTS[len(shape)]) if channels_last else x
    gain, offset = torch.randn(2, max(shape[0] // 2, 1), shape[1], device="cuda").unbind()
    for silu in (False, True):
        found, expected = (f(x, gain, offset, silu) for f in (scale_shift, scale_shift_twin))
        assert found.stride() == x.stride()
        assert torch.allclose(
            found, expected, rtol=1e-2, atol=1e-2 if dtype != torch.float32 else 1e-5
        )
    cut = x[..., 3:15]
    assert torch.allclose(
        scale_shift(cut, gain, offset, True), scale_shift_twin(cut, gain, offset, True), atol=1e-2
    )


def kl_vae():
    diffusers = pytest.importorskip("diffusers")
    vae = diffusers.AutoencoderKL(
        block_out_channels=(64, 128, 512),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
    )
    return vae.eval().cuda()


@pytest.mark.parametrize("accelerated", [False, True])
def test_the_true_peak_stays_within_ten_budgets(accelerated):
    vae = kl_vae().bfloat16()
    latent = torch.randn(1, 4, 200, 232, device="cuda", dtype=torch.bfloat16)
    if accelerated:
        accelerate_vae(vae)
    TiledVae(vae, Tiling(tile=256, quiet=True)).decode(latent)  # cuBLAS takes its workspace
    torch.cuda.empty_cache()
    untiled = TiledVae(vae, Tiling(budget_bytes=2**40, quiet=True))
    expected = untiled.decode(latent)
    base = torch.cuda.memory_allocated()
    for share in (1.0, 0.9, 0.8, 0.7, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35):
        budget = base + int(share * (untiled.peak_bytes - base)) + 2**27
        tiled = TiledVae(vae, Tiling(budget_bytes=budget, quiet=True))
        result = tiled.decode(latent)
        assert tiled.peak_bytes <= budget
        assert psnr(result, expected) > 28


@pytest.mark.parametrize("overlap", [None, 32])
def test_offload_gives_the_same_picture_on_the_cpu(overlap):
    vae = kl_vae().bfloat16()
    latent = torch.randn(2, 4, 90, 70, device="cuda", dtype=torch.bfloat16)
    choice = {"tile": 160, "overlap": overlap, "batch": 1, "quiet": True}
    expected = TiledVae(vae, Tiling(**choice)).decode(latent)
    found = TiledVae(vae, Tiling(offload=True, **choice)).decode(latent)
    assert found.device.type == "cpu"
    assert torch.equal(found, expected.cpu())
    tiled = TiledVae(vae, Tiling(offload_weights=True, **choice))
    assert {each.device.type for each in vae.parameters()} == {"cpu"}
    assert torch.equal(tiled.decode(latent), expected)
    assert {each.device.type for each in vae.parameters()} == {"cpu"}


def test_out_of_memory_replans_smaller_and_says_so(capsys):
    vae = kl_vae().bfloat16()
    latent = torch.randn(1, 4, 256, 256, device="cuda", dtype=torch.bfloat16)
    expected = TiledVae(vae, Tiling(quiet=True)).decode(latent)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 700 * 2**20) / total)
    try:
        found = TiledVae(vae, Tiling(budget_bytes=2**34)).decode(latent)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "out of memory" in capsys.readouterr().err
    assert psnr(found, expected) > 28


def test_a_causal_clip_in_chunks_and_tiles_equals_whole():
    vae = VideoVae(VaeConfig(channels=(32, 64, 64, 64), groups=8)).eval().cuda()
    latent = torch.randn(1, 16, 4, 24, 30, device="cuda")
    expected = vae.decoder(latent)
    undo = accelerate_vae(vae)
    chunked = TiledVae(vae, Tiling(budget_bytes=2**40, quiet=True)).decode(latent)
    assert (chunked - expected).norm() / expected.norm() < 2e-3  # TF32 convolutions
    tiled = TiledVae(vae, Tiling(tile=128, quiet=True)).decode(latent)
    assert psnr(tiled, expected) > 35
    undo()
    assert torch.equal(vae.decoder(latent), expected)
