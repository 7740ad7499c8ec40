import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from pitstop.workloads.tiled_vae import slow
from pitstop.workloads.tiled_vae.data import ClipWindows, clips_at_least, clips_folder, read_frame
from pitstop.workloads.tiled_vae.model import VaeConfig, VideoVae
from pitstop.workloads.tiled_vae.quality import psnr, seam
from pitstop.workloads.tiled_vae.tiling import Tiling, tiled_decode, tiled_encode

TINY = VaeConfig(channels=(8, 8, 8, 8), layers=1, groups=4)
TINY_CLIP = [
    "--small",
    "--frames",
    "1",
    "--height",
    "48",
    "--width",
    "64",
    "--tile",
    "32",
    "--overlap",
    "8",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    clips_folder(small=True, root=root)
    return root


@pytest.fixture
def vae():
    torch.manual_seed(0)
    return VideoVae(TINY).eval()


def millions(module):
    return sum(parameter.numel() for parameter in module.parameters()) / 1e6


def test_full_size_has_the_published_parameter_counts():
    with torch.device("meta"):
        vae = VideoVae(VaeConfig())
    assert millions(vae) == pytest.approx(250.6, rel=0.001)
    assert millions(vae.encoder) == pytest.approx(100.0, rel=0.001)
    assert millions(vae.decoder) == pytest.approx(150.6, rel=0.001)


@torch.no_grad()
@pytest.mark.parametrize("frames", [1, 5, 9])
def test_codes_8x_in_space_4x_in_time_into_16_channels(vae, frames):
    latent = vae.encode(torch.zeros(1, 3, frames, 16, 24))
    assert (vae.spatial_scale, vae.temporal_scale) == (8, 4)
    assert latent.shape == (1, 16, 1 + frames // 4, 2, 3)
    assert vae.decode(latent).shape == (1, 3, frames, 16, 24)


@torch.no_grad()
def test_earlier_frames_do_not_see_later_ones(vae):
    vae.train()  # the whole clip at once, not slice by slice
    clip = torch.randn(1, 3, 9, 16, 16)
    changed = clip.clone()
    changed[:, :, 5:] = 0
    before, after = vae.encode(clip), vae.encode(changed)
    assert torch.equal(before[:, :, :2], after[:, :, :2])
    assert not torch.equal(before[:, :, 2], after[:, :, 2])
    decoded, decoded_after = vae.decode(before), vae.decode(after)
    assert torch.equal(decoded[:, :, :5], decoded_after[:, :, :5])


@torch.no_grad()
def test_slices_hand_on_their_state_and_leave_none_behind(vae):
    clip = torch.randn(1, 3, 13, 16, 16)
    latent = vae.encode(clip)
    decoded = vae.decode(latent)
    assert all(getattr(module, "memory", None) is None for module in vae.modules())
    vae.train()
    torch.testing.assert_close(latent, vae.encode(clip), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(decoded, vae.decode(latent), atol=1e-5, rtol=1e-4)


def local_vae():
    """A stand-in that looks at each 8x8 block alone: tiling must not change its results."""
    return SimpleNamespace(
        spatial_scale=8,
        encode=lambda clip: F.avg_pool3d(clip, (1, 8, 8)),
        decode=lambda latent: F.interpolate(latent, scale_factor=(1.0, 8.0, 8.0)),
    )


@pytest.mark.parametrize(("height", "width"), [(96, 160), (64, 200), (72, 136), (40, 40)])
def test_the_ramps_of_all_tiles_add_up_to_one(height, width):
    vae, tiling = local_vae(), Tiling(64, 16)
    clip = torch.randn(1, 3, 2, height, width)
    latent = tiled_encode(vae, clip, tiling)
    torch.testing.assert_close(latent, vae.encode(clip))
    torch.testing.assert_close(tiled_decode(vae, latent, tiling), vae.decode(latent))


@torch.no_grad()
def test_networks_run_once_for_every_tile(vae):
    calls = []
    for network in (vae.encoder, vae.decoder):
        network.register_forward_hook(lambda module, inputs, _: calls.append((module, inputs[0])))
    slow.run_tiled(vae, torch.randn(1, 3, 1, 48, 64), Tiling(32, 8))
    assert [module for module, _ in calls] == [vae.encoder] * 6 + [vae.decoder] * 6
    assert {tuple(x.shape[3:]) for module, x in calls if module is vae.encoder} == {
        (32, 32),
        (32, 16),
        (24, 32),
        (24, 16),
    }


def test_six_tiles_of_four_shapes_cover_720p_one_and_a_fifth_times():
    vae, shapes = local_vae(), []

    def encode(tile):
        shapes.append(tuple(tile.shape[3:]))
        return F.avg_pool3d(tile, (1, 8, 8))

    vae.encode = encode
    tiled_encode(vae, torch.zeros(1, 1, 1, 720, 1280), Tiling(512, 64))
    assert (len(shapes), len(set(shapes))) == (6, 4)
    assert sum(tall * wide for tall, wide in shapes) / (720 * 1280) == pytest.approx(
        1.198, abs=0.001
    )


def test_seam_rises_where_a_tile_border_shows():
    clip, tiling = torch.randn(1, 3, 2, 96, 160), Tiling(64, 16)
    noisy = clip + 0.1 * torch.randn_like(clip)
    assert seam(noisy, clip, tiling) == pytest.approx(1, abs=0.05)
    stepped = noisy.clone()
    stepped[..., 48:] += 0.5
    assert seam(stepped, clip, tiling) > 1.3
    assert seam(noisy, clip, Tiling(160, 16)) == 1


def test_psnr_of_a_known_error():
    clip = torch.zeros(1, 3, 1, 8, 8)
    assert psnr(clip + 0.2, clip) == pytest.approx(20)


def test_windows_are_cut_from_the_middle_of_the_pictures(data):
    folder = data / "tiled_vae-small" / "test" / "64x112"
    clips = ClipWindows(folder, frames=5, height=48, width=64)
    clip, name = clips[1]
    assert (len(clips), name, clip.shape) == (8, "clip_00_00005", (3, 5, 48, 64))
    assert torch.equal(clip[:, 2], read_frame(folder / "clip_00/00007.png")[:, 8:56, 24:88])
    assert -1 <= clip.min() < -0.5 < 0.5 < clip.max() <= 1


def test_the_smallest_pictures_that_hold_the_clip_are_read():
    assert clips_at_least(False, 720, 1280) == "test/720x1280"
    assert clips_at_least(False, 1088, 1920) == "test/1088x1920"
    assert clips_at_least(False, 2160, 3840) is None


def test_script_reconstructs_and_saves_frames(data, tmp_path):
    command = [sys.executable, "-m", slow.__name__, "--small", "--steps", "2"]
    command += ["--data", str(data), "--out", str(tmp_path), "--device", "cpu"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, final, done = run.stdout.splitlines()
    assert re.fullmatch(r"\[step 1/2\] psnr=[\d.]+ seam=[\d.]+ time=[\d.]+s", first)
    assert second.startswith("[step 2/2] ")
    assert re.fullmatch(r"\[val\] step=2 psnr=[\d.]+ seam=[\d.]+", final)
    assert re.fullmatch(r"\[done\] steps=2 batch=1 psnr=[\d.]+ seam=[\d.]+", done)
    frames = sorted((tmp_path / "frames").rglob("*.png"))
    assert len(frames) == 10
    assert read_frame(frames[0]).shape == (3, 64, 112)
    assert list(tmp_path.glob("logs/events*"))


def run_tiny(capsys, data, out, *flags):
    slow.main([*TINY_CLIP, "--data", str(data), "--out", str(out), "--device", "cpu", *flags])
    return re.sub(r" time=\S+", "", capsys.readouterr().out).splitlines()


def test_training_repeats_itself_and_its_checkpoint_loads(data, tmp_path, capsys):
    flags = ("--train", "--steps", "2", "--crop", "32")
    lines = run_tiny(capsys, data, tmp_path, *flags)
    assert [line.split()[0] for line in lines] == ["[val]", "[step", "[step", "[val]", "[done]"]
    assert re.fullmatch(r"\[val\] step=0 psnr=[\d.]+ seam=[\d.]+", lines[0])
    assert re.fullmatch(r"\[done\] steps=2 batch=2 psnr=[\d.]+ seam=[\d.]+", lines[-1])
    assert list(tmp_path.glob("logs/events*"))
    assert lines == run_tiny(capsys, data, tmp_path / "again", *flags)
    trained = run_tiny(
        capsys, data, tmp_path, "--checkpoint", str(tmp_path / "vae.pt"), "--steps", "1"
    )
    untrained = run_tiny(capsys, data, tmp_path, "--steps", "1")
    assert trained != untrained


@pytest.mark.parametrize(
    "flags",
    [
        ["--frames", "6"],
        ["--frames", "21"],
        ["--height", "100"],
        ["--height", "2160"],
        ["--overlap", "64"],
        ["--steps", "0"],
        ["--checkpoint", "missing.pt"],
    ],
)
def test_impossible_arguments_end_with_one_line(flags, capsys):
    with pytest.raises(SystemExit) as stopped:
        slow.main(["--small", *flags])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("tiled_vae: error: ")
