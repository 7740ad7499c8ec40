"""The five systems after their pit stop: the same numbers as before it, from no more lines."""

import re
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate.utils import set_seed  # type: ignore[import-untyped]
from PIL import Image

from pitstop.core.errors import PitstopError
from pitstop.parts.dsepconv import dsepconv_twin
from pitstop.workloads import edits
from pitstop.workloads.frame_interpolation import config as frame_config
from pitstop.workloads.frame_interpolation import faster as frame
from pitstop.workloads.frame_interpolation.model import VQFlowNet
from pitstop.workloads.lora_diffusion import config as lora_config
from pitstop.workloads.lora_diffusion import data as lora_data
from pitstop.workloads.lora_diffusion import fast as lora_fast
from pitstop.workloads.lora_diffusion import slow as lora_slow
from pitstop.workloads.pose_regression import data as pose_data
from pitstop.workloads.pose_regression import fast as pose_fast
from pitstop.workloads.pose_regression import faster as pose
from pitstop.workloads.pose_regression import model as pose_model
from pitstop.workloads.pose_regression import slow as pose_slow
from pitstop.workloads.pose_regression.backbone import Bottleneck
from pitstop.workloads.pose_regression.quality import natural_statistics
from pitstop.workloads.pose_regression.splat import render_with_gsplat, splat
from pitstop.workloads.spike_deblur import data as spike_data
from pitstop.workloads.spike_deblur import fast as spike_fast
from pitstop.workloads.spike_deblur import faster as spike
from pitstop.workloads.spike_deblur import slow as spike_slow
from pitstop.workloads.spike_deblur.model import SpikeVRT
from pitstop.workloads.spike_deblur.settings import load_settings
from pitstop.workloads.tiled_vae import fast as vae_fast
from pitstop.workloads.tiled_vae import options as vae_options
from pitstop.workloads.tiled_vae import slow as vae_slow
from pitstop.workloads.tiled_vae.tiling import Tiling

SYSTEMS = sorted(path.parent.name for path in edits.FOLDER.glob("*/fast.py"))
ROUNDING = {"rtol": 2e-3, "atol": 1e-5}
pytestmark = pytest.mark.filterwarnings("ignore")


def gradients(module, loss):
    """By ``backward``, as checkpoints of the old kind ask for."""
    module.zero_grad(set_to_none=True)
    loss.backward()
    return [None if each.grad is None else each.grad.clone() for each in module.parameters()]


def check_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        nothing = torch.zeros(())
        torch.testing.assert_close(
            nothing if one is None else one, nothing if other is None else other, **ROUNDING
        )


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_longer_than_as_found(name):
    folder = edits.FOLDER / name
    lines = {each: (folder / f"{each}.py").read_text().count("\n") for each in ("slow", "fast")}
    assert lines["fast"] <= lines["slow"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_edit_can_be_undone(name):
    script = (
        f"from pitstop.workloads import edits; edits.undo({name!r}, edits.load({name!r}));"
        f"import pitstop.workloads.{name}.fast"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


def test_an_unknown_edit_or_system_is_one_line():
    with pytest.raises(SystemExit, match="no edit 'glue' of spike_deblur: choose from loader"):
        edits.main(["spike_deblur", "--only", "glue"])
    with pytest.raises(PitstopError, match="no system 'none' with a fast"):
        edits.load("none")


# frame_interpolation


@pytest.mark.parametrize("step", [0, 10])
@pytest.mark.parametrize("index", [0, 1])
def test_interpolation_has_the_losses_and_gradients_as_found(step, index, monkeypatch):
    """With the kernel that slow.py is written for, which needs a GPU, as its twin."""
    kernel = types.SimpleNamespace(dsepconv=dsepconv_twin)
    monkeypatch.setitem(sys.modules, "pitstop.workloads.frame_interpolation.dsepconv", kernel)
    small = frame_config.load_config(frame_config.FOLDER / "small.yaml").model
    network = replace(small.ddconfig, ch_mult=(1, 1), ch=32)
    loss = replace(small.lossconfig, disc_start=5, disc_ndf=4, perceptual_width=2)
    torch.manual_seed(0)
    model = VQFlowNet(replace(small, n_embed=16, ddconfig=network, lossconfig=loss))
    batch = {key: torch.rand(2, 32, 32, 3) * 2 - 1 for key in ("image", "prev_frame", "next_frame")}
    if index == 1 and step < 5:
        assert not frame.is_adversarial(model.loss, step)
        return

    def run():
        loss, logs = model.training_step(batch, index, step)
        logs = {name: value.detach() for name, value in logs.items()}
        return loss.detach(), logs, gradients(model, loss)

    expected, logs, slopes = run()
    frame.faster(model)
    found, ours, new_slopes = run()
    torch.testing.assert_close(found, expected, **ROUNDING)
    for name, value in ours.items():
        torch.testing.assert_close(value, logs[name], **ROUNDING)
    pairs = [
        (a, b) for a, b in zip(new_slopes, slopes, strict=True) if b is not None and b.abs().max()
    ]
    assert len(pairs) > 20 or index == 1
    check_same(*zip(*pairs, strict=True))


# spike_deblur


def test_deblurring_has_the_output_and_gradients_as_found():
    small = load_settings(edits.FOLDER / "spike_deblur" / "gopro_spike_small.yaml").model
    torch.manual_seed(0)
    model = SpikeVRT(replace(small, embed_dims=(8,) * 11, flow_widths=(4,)))
    torch.nn.init.normal_(model.last.weight)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d) and not module.weight.any():
            torch.nn.init.normal_(module.weight, std=0.05)  # flow and offsets that do something
    clip, sharp = torch.rand(1, 4, 8, 32, 32), torch.rand(1, 4, 3, 32, 32)

    def run():
        torch.manual_seed(1)
        out = model(clip)
        return out.detach(), gradients(model, (out - sharp).square().mean())

    expected, slopes = run()
    spike.faster(model)
    found, new_slopes = run()
    torch.testing.assert_close(found, expected, **ROUNDING)
    check_same(new_slopes, slopes)


def test_a_voxel_is_counted_again_as_it_was_stored(tmp_path):
    root = spike_data.prepare(True, tmp_path)
    recordings = spike_fast.Recordings(root, "train", 4, 5, 32)
    lost, clip = "00000005", root / "Train" / "GOPR0001"
    stored = recordings._read_voxel(clip, lost)
    (clip / "spike_vox" / f"{lost}.pt").unlink()
    np.testing.assert_array_equal(recordings._read_voxel(clip, lost), stored)


def test_cached_clips_are_those_of_the_slow_dataset(tmp_path):
    root = spike_data.prepare(True, tmp_path)
    recordings = spike_fast.Recordings(root, "train", 4, 5, 32)
    cached = spike_fast.CachedClips(recordings, 32)
    as_found = spike_slow.SpikeDeblurDataset(root, "train", 4, 5, 32)
    assert len(cached) == len(as_found)
    for index in (0, len(cached) - 1):
        torch.manual_seed(index)
        expected = as_found[index]
        torch.manual_seed(index)
        check_same(cached[index], expected)


# tiled_vae


def test_a_clip_is_what_the_network_makes_of_it_whole(tmp_path):
    options = replace(vae_options.SMALL, device="cpu", height=48, width=80, tile=32)
    torch.manual_seed(0)
    vae = vae_slow.build_vae(options).eval()
    clip = torch.rand(1, 3, 5, options.height, options.width) * 2 - 1
    with torch.no_grad():
        whole = vae.decode(vae.encode(clip))
    found = vae_fast.coder(vae, options)(clip)
    tiled = vae_slow.run_tiled(vae, clip, Tiling(options.tile, options.overlap))
    torch.testing.assert_close(found, whole, rtol=1e-3, atol=1e-3)
    assert (found - whole).norm() < 0.1 * (tiled - whole).norm()


def test_pictures_are_those_of_the_slow_writer(tmp_path):
    clip = torch.rand(3, 2, 8, 8) * 2 - 1
    vae_slow.write_frames(clip, tmp_path / "slow")
    with ThreadPoolExecutor(2) as pool:
        vae_fast.finished(vae_fast.write_frames(clip, tmp_path / "fast", pool))
    for name in ("00000.png", "00001.png"):
        one, other = (np.asarray(Image.open(tmp_path / each / name)) for each in ("slow", "fast"))
        np.testing.assert_array_equal(one, other)


# lora_diffusion


def test_a_lora_has_the_losses_gradients_and_images_as_found(tmp_path):
    folder = lora_data.prepare(small=True, root=tmp_path)
    settings = replace(
        lora_config.SMALL, num_validation_images=2, num_inference_steps=1, num_workers=0
    )

    def run(kind):
        set_seed(0)
        trainer = kind(settings, folder, tmp_path / kind.__name__, "cpu")
        pictures = trainer.style_dataset("held-out")
        batch = next(iter(torch.utils.data.DataLoader(pictures, batch_size=2)))
        if kind is lora_fast.Trainer:
            trainer.encode_captions(pictures.items)
        torch.manual_seed(1)
        for name, weight in trainer.transformer.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.02)  # as if it had learnt something
        loss = trainer.compute_loss(batch)
        slopes = gradients(trainer.transformer, loss)
        trainer.generate_images(0)
        shown = sorted((trainer.out / "validation").glob("*.png"))
        return loss.detach(), slopes, [np.asarray(Image.open(each), int) for each in shown]

    expected, found = run(lora_slow.FluxTrainer), run(lora_fast.Trainer)
    torch.testing.assert_close(found[0], expected[0], **ROUNDING)
    check_same(found[1], expected[1])
    for one, other in zip(found[2], expected[2], strict=True):
        assert abs(one - other).max() <= 1  # a grey level


# pose_regression


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    layout = pose_data.Layout(
        "tiny", pose_data.Camera(48, 64, 50.0), 2000, train_frames=(4, 4), test_frames=(4,)
    )
    return layout, pose_data.prepare(layout, tmp_path_factory.mktemp("room"), "cpu")


def test_views_and_their_scores_are_those_of_one_at_a_time(room):
    gaussians = pose_data.Gaussians.load(room[1] / "gaussians.npz")
    camera = pose_data.load_camera(room[1])
    poses = torch.from_numpy(pose_data.SevenScenes(room[1], train=True).poses).float()
    poses, light = poses.view(-1, 3, 4), torch.linspace(0.7, 1.4, len(poses))
    found = pose.render_views(gaussians, camera, poses, light)
    scores = pose.natural_statistics(found[:, :3])
    for view, where, gamma, numbers in zip(found, poses, light, scores, strict=True):
        plain = splat(gaussians, camera, where)
        lit = splat(replace(gaussians, colours=gaussians.colours**gamma), camera, where)
        torch.testing.assert_close(view, torch.cat((plain, lit)), rtol=1e-4, atol=1e-5)
        expected = natural_statistics(plain.permute(1, 2, 0).numpy())
        np.testing.assert_allclose(numbers.numpy(), expected, rtol=2e-3, atol=2e-4)


def test_gsplat_is_asked_for_all_views_in_one_call(room):
    """Its batch call, answered by our splatter: shapes, cameras and colours are what it takes."""
    gaussians = pose_data.Gaussians.load(room[1] / "gaussians.npz")
    camera = pose_data.load_camera(room[1])
    poses = torch.from_numpy(pose_data.SevenScenes(room[1], train=True).poses).float()
    poses = poses.view(-1, 3, 4)[:3]
    light = torch.linspace(0.7, 1.4, 3)
    calls = []

    def rasterization(*scene, viewmats, Ks, width, height, **_):
        *shapes, colours = scene
        calls.append(colours.shape)
        assert (viewmats.shape, Ks.shape) == ((3, 4, 4), (3, 3, 3))
        pictures = []
        for view, lens, each in zip(viewmats, Ks, colours, strict=True):
            eye = replace(camera, height=height, width=width, focal=float(lens[0, 0]))
            lit = [pose_data.Gaussians(*shapes, some) for some in each.split(3, 1)]
            where = torch.linalg.inv(view)[:3]
            pictures.append(torch.cat([splat(some, eye, where) for some in lit]))
        return torch.stack(pictures).permute(0, 2, 3, 1), None, {}

    colours = pose.both_lights(gaussians, light)
    library = types.SimpleNamespace(rasterization=rasterization)
    found = render_with_gsplat(library, gaussians, camera, poses, colours)
    assert calls == [(3, len(gaussians.means), 6)]
    expected = pose.render_views(gaussians, camera, poses, light)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_views_drawn_beside_the_training_are_those_of_drawing_between_the_steps(
    room, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(pose_data, "SMALL", room[0])
    monkeypatch.setattr(pose_data, "prepare", lambda *_: room[1])
    options = ["--small", "--device", "cpu", "--out", str(tmp_path), "--batch_size", "4"]
    options += ["--val_num_workers", "0", "--max_attempts", "2", "--rvs_refresh_rate", "1"]

    def views(synthesize):
        torch.manual_seed(0)
        trainer = pose_fast.Trainer(pose_slow.parse([*options, "--steps", "5"]))
        order = trainer.poses[:, 0, 3].argsort()
        trainer.poses = trainer.poses[order]
        for epoch in range(3):  # of two steps each; the third sees the last views
            synthesize(trainer, epoch)
            yield trainer.new_poses.clone(), trainer.new_views.clone()
            trainer.step += 2
        lines.append(re.sub(r" time=\S+", "", capsys.readouterr().out))

    lines = []
    expected = list(views(pose_slow.Trainer.synthesize))
    found = list(views(pose_fast.Trainer.synthesize))
    assert lines[0] == lines[1]
    assert not found[0][1].equal(found[1][1])
    for one, other in zip(found, expected, strict=True):
        assert one[0].equal(other[0])
        torch.testing.assert_close(one[1], other[1])


def test_a_pose_step_learns_as_found(room, tmp_path, monkeypatch):
    tiny = replace(pose_model.SMALL, layers=1, dropout=0.0)
    monkeypatch.setattr(pose_model, "SMALL", tiny)
    monkeypatch.setattr(pose_data, "SMALL", room[0])
    monkeypatch.setattr(pose_data, "prepare", lambda *_: room[1])
    options = ["--small", "--device", "cpu", "--out", str(tmp_path), "--batch_size", "4"]
    views = torch.rand(8, 3, 48, 64, generator=torch.Generator().manual_seed(5))

    def run(kind):
        torch.manual_seed(0)
        trainer = kind(pose_slow.parse([*options, "--val_num_workers", "0"]))
        for module in trainer.model.modules():
            if isinstance(module, Bottleneck):
                module.drop = 0.0  # what draws no number cannot part from what draws fewer
        for module in trainer.discriminator.modules():
            if isinstance(module, torch.nn.Dropout2d):
                module.p = 0.0
        order = trainer.poses[:, 0, 3].argsort()
        trainer.poses, trainer.photographs, trainer.rendered = (
            each[order] for each in (trainer.poses, trainer.photographs, trainer.rendered)
        )
        trainer.new_poses, trainer.new_views = trainer.poses, views
        trainer.model.train()
        loss = trainer.train_step(np.arange(4))
        slopes = [each.grad for name, each in trainer.model.named_parameters() if in_use(name)]
        return loss, slopes, [each.grad for each in trainer.discriminator.parameters()]

    def in_use(name):
        return not name.startswith(("backbone.blocks.", "backbone.head", "backbone.classifier"))

    expected, found = run(pose_slow.Trainer), run(pose_fast.Trainer)
    torch.testing.assert_close(found[0], expected[0], **ROUNDING)
    for one, other in zip(found[1], expected[1], strict=True):
        assert (one - other).norm() <= 1e-2 * other.norm() + 1e-6
