import os
import re
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pitstop.workloads.pose_regression import data, model, slow
from pitstop.workloads.pose_regression.losses import PoseLoss
from pitstop.workloads.pose_regression.quality import NaturalScore
from pitstop.workloads.pose_regression.room import walk
from pitstop.workloads.pose_regression.splat import Camera, Gaussians, splat
from pitstop.workloads.scenes import Scene

TINY = model.Network(
    width=0.25, hidden=16, feedforward=16, layers=1, dropout=0.0, regressor=8, features=8
)
FEW = ("--train_skip", "6", "--max_attempts", "2")  # eight of the training images


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data.prepare(data.SMALL, folder, "cpu")
    return folder


@pytest.fixture(scope="module")
def trainer(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("trainer")
    shared = ["--small", "--device", "cpu", "--data", str(root), "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "SMALL", TINY)
        trainer = slow.Trainer(slow.parse([*shared, *FEW]))
    trainer.synthesize(0)
    trainer.model.train()
    yield trainer
    trainer.writer.close()


def millions(module):
    return sum(weight.numel() for weight in module.parameters()) / 1e6


# The network


def test_full_size_has_the_parameters_of_the_original():
    with torch.device("meta"):
        network = model.PoseNetwork(model.FULL)
        discriminator = model.Discriminator(model.FULL.features, 30, 54)
    assert millions(network.backbone) == pytest.approx(5.288548)  # EfficientNet-B0, to the last
    assert millions(network.transformers) == pytest.approx(4.79, rel=0.1)
    assert millions(network) == pytest.approx(11.1, rel=0.1)
    assert millions(discriminator) == pytest.approx(0.10, rel=0.1)


def test_a_third_of_the_backbone_comes_after_the_last_feature_used():
    with torch.device("meta"):
        backbone = model.PoseNetwork(model.FULL).backbone
        images = torch.empty(1, 3, 240, 427)
    with FlopCounterMode(display=False) as whole:
        endpoints = backbone.endpoints(images)
    last_stride = max(i for i, block in enumerate(backbone.blocks) if block.stride == 2)
    with FlopCounterMode(display=False) as late:
        features = endpoints["reduction_4"]
        for block in backbone.blocks[last_stride:]:
            features = block(features)
        backbone.head(features)
    assert endpoints["reduction_4"].shape == (1, 112, 15, 27)
    assert endpoints["reduction_3"].shape == (1, 40, 30, 54)
    assert 0.3 < late.get_total_flops() / whole.get_total_flops() < 0.42


def test_late_blocks_and_classifier_run_or_exist_without_ever_getting_a_gradient():
    network = model.PoseNetwork(TINY)
    _, poses = network(torch.randn(2, 3, 64, 64))
    poses.square().sum().backward()
    idle = {name for name, weight in network.named_parameters() if weight.grad is None}
    assert {"backbone.classifier.weight", "backbone.head.0.weight"} <= idle
    assert "backbone.blocks.15.layers.0.weight" in idle
    assert not any(name.startswith(("transformers", "heads", "backbone.stem")) for name in idle)


def test_attention_weights_are_made_and_dropped():
    network = model.PoseNetwork(TINY)
    made = []
    for layer in network.modules():
        if isinstance(layer, torch.nn.MultiheadAttention):
            layer.register_forward_hook(lambda *call: made.append(call[2][1]))
    network(torch.randn(1, 3, 64, 64))
    assert [weights.shape for weights in made] == [(1, 17, 17), (1, 65, 65)]


def test_predicted_rotations_are_rotations():
    rotations = model.rotation_from_six(torch.randn(5, 6))
    assert torch.allclose(rotations @ rotations.mT, torch.eye(3).expand(5, 3, 3), atol=1e-5)
    assert torch.allclose(torch.linalg.det(rotations), torch.ones(5))


# A training step


def test_a_step_runs_the_backbone_twice_and_the_discriminator_three_times(trainer):
    images, verdicts = [], []
    hooks = [
        trainer.model.backbone.stem.register_forward_hook(lambda *c: images.append(len(c[2]))),
        trainer.discriminator.register_forward_hook(lambda *c: verdicts.append(len(c[2]))),
    ]
    trainer.train_step(np.arange(4))
    for hook in hooks:
        hook.remove()
    assert images == [8, 4]
    assert verdicts == [8, 8, 8]


def test_the_discriminator_update_computes_gradients_that_are_thrown_away(trainer, monkeypatch):
    discarded = []
    zero_grad = trainer.optimizer.zero_grad
    stem = trainer.model.backbone.stem[0].weight

    def spy(**options):
        discarded.append(stem.grad is not None and bool(stem.grad.abs().sum() > 0))
        zero_grad(**options)

    zero_grad(set_to_none=True)
    monkeypatch.setattr(trainer.optimizer, "zero_grad", spy)
    trainer.train_step(np.arange(4))
    assert discarded == [True]


def test_the_learned_loss_weights_belong_to_no_optimizer(trainer):
    trained = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    trainer.train_step(np.arange(4))
    for weight in trainer.pose_loss.parameters():
        assert weight.grad is not None
        assert id(weight) not in trained
    assert trainer.pose_loss.position.item() == PoseLoss().position.item()


def test_new_views_are_scored_one_by_one_and_stay_near_the_known_ones(trainer, monkeypatch):
    quality = Mock(wraps=trainer.renderer.quality)
    monkeypatch.setattr(trainer.renderer, "quality", quality)
    poses, views = trainer.renderer.render_perturbed(trainer.poses)
    assert len(trainer.poses) <= quality.score.call_count <= 2 * len(trainer.poses)
    assert views.shape == trainer.photographs.shape
    assert (poses[:, :, 3] - trainer.poses[:, :, 3]).abs().max() <= 0.2 + 1e-6
    assert torch.allclose(torch.linalg.det(poses[:, :, :3]), torch.ones(len(poses)).double())


def test_training_data_stays_in_pageable_memory(trainer):
    held = (trainer.photographs, trainer.rendered, trainer.poses, trainer.new_views)
    assert all(each.device.type == "cpu" and not each.is_pinned() for each in held)


def test_pose_errors_are_metres_and_degrees():
    true = torch.eye(3, 4).flatten()[None]
    quarter = torch.tensor([[0.0, -1, 0, 3], [1, 0, 0, 4], [0, 0, 1, 0]]).flatten()[None]
    away, turned = slow.pose_errors(quarter, true)
    assert away.item() == pytest.approx(5)
    assert turned.item() == pytest.approx(90, abs=1e-3)


# Rendering


def scene(*blobs):
    """Gaussians of (mean, scale, opacity, colour), round ones."""
    means, scales, opacities, colours = zip(*blobs, strict=True)
    return Gaussians(
        torch.tensor(means),
        torch.tensor([[1.0, 0, 0, 0]] * len(blobs)),
        torch.tensor(scales)[:, None].expand(-1, 3).contiguous(),
        torch.tensor(opacities),
        torch.tensor(colours),
    )


def test_one_round_gaussian_is_the_formula():
    camera, sigma, depth = Camera(37, 51, 40.0), 0.15, 2.0
    picture = splat(scene(((0.0, 0, depth), sigma, 0.8, (1.0, 0.5, 0.0))), camera, torch.eye(4))
    y, x = np.mgrid[0:37, 0:51] + 0.5
    variance = (camera.focal * sigma / depth) ** 2 + 0.3
    alpha = 0.8 * np.exp(-((x - 25.5) ** 2 + (y - 18.5) ** 2) / (2 * variance))
    alpha[alpha < 1 / 255] = 0
    assert np.allclose(picture[0], alpha, atol=1e-6)
    assert np.allclose(picture[1], alpha / 2, atol=1e-6)
    assert not picture[2].any()


@pytest.mark.parametrize("front_first", [True, False])
def test_the_nearer_gaussian_covers_the_other(front_first):
    red = ((0.0, 0, 1.0), 0.1, 0.9, (1.0, 0.0, 0.0))
    green = ((0.0, 0, 3.0), 0.3, 0.9, (0.0, 1.0, 0.0))
    blobs = (red, green) if front_first else (green, red)
    picture = splat(scene(*blobs), Camera(15, 15, 30.0), torch.eye(4))
    assert picture[:, 7, 7].tolist() == pytest.approx([0.9, 0.09, 0], abs=1e-5)


def test_what_lies_behind_the_camera_is_not_drawn():
    behind = scene(((0.0, 0, -2.0), 0.3, 0.9, (1.0, 1.0, 1.0)))
    assert not splat(behind, Camera(16, 16, 20.0), torch.eye(4)).any()


def test_tiles_agree_with_every_pixel_on_its_own():
    draw = np.random.default_rng(3)
    count, camera = 60, Camera(29, 42, 35.0)
    gaussians = Gaussians(
        *(
            torch.from_numpy(array.astype(np.float32))
            for array in (
                draw.uniform((-2, -1.5, -1), (2, 1.5, 5), (count, 3)),
                draw.normal(size=(count, 4)),
                draw.uniform(0.02, 0.5, (count, 3)),
                draw.uniform(0.0, 1.0, count),
                draw.uniform(0, 1, (count, 3)),
            )
        )
    )
    pose = torch.eye(4)
    pose[:3] = torch.from_numpy(walk(0.3, 5)[2][:3]) * torch.tensor([1, 1, 1, 0.1])
    expected = pixel_by_pixel(gaussians, camera, pose.double().numpy())
    assert expected.max() > 0.5
    assert np.allclose(splat(gaussians, camera, pose), expected, atol=2e-4)


def pixel_by_pixel(gaussians, camera, pose):
    """The same picture in double precision, one Gaussian after the other on the whole image."""
    means, quaternions, scales, opacities, colours = (
        getattr(gaussians, name).double().numpy()
        for name in ("means", "quaternions", "scales", "opacities", "colours")
    )
    points = (means - pose[:3, 3]) @ pose[:3, :3]
    picture, light = np.zeros((3, camera.height, camera.width)), 1.0
    y, x = np.mgrid[0 : camera.height, 0 : camera.width] + 0.5
    for index in np.argsort(points[:, 2], kind="stable"):
        px, py, pz = points[index]
        if pz <= 0.1:
            continue
        w, vector = quaternions[index][0], quaternions[index][1:]
        length = np.linalg.norm(quaternions[index])
        w, vector = w / length, vector / length
        skew = np.cross(np.eye(3), vector)  # the matrix of "vector cross"
        axes = (np.eye(3) + 2 * w * skew + 2 * skew @ skew) * scales[index]
        limit_x, limit_y = 0.65 * camera.width / camera.focal, 0.65 * camera.height / camera.focal
        slope = np.clip([px / pz, py / pz], (-limit_x, -limit_y), (limit_x, limit_y))
        jacobian = camera.focal / pz * np.array([[1, 0, -slope[0]], [0, 1, -slope[1]]])
        spread = jacobian @ pose[:3, :3].T @ axes
        inverse = np.linalg.inv(spread @ spread.T + 0.3 * np.eye(2))
        dx = x - camera.focal * px / pz - camera.width / 2
        dy = y - camera.focal * py / pz - camera.height / 2
        power = inverse[0, 0] * dx * dx + 2 * inverse[0, 1] * dx * dy + inverse[1, 1] * dy * dy
        alpha = np.minimum(opacities[index] * np.exp(-power / 2), 0.99)
        alpha[alpha < 1 / 255] = 0
        picture += light * alpha * colours[index][:, None, None]
        light = light * (1 - alpha)
    return picture


# Data and quality


def test_data_has_the_layout_of_seven_scenes(root):
    folder = root / data.SMALL.name
    train, test = (data.SevenScenes(folder, train=split) for split in (True, False))
    assert (len(train), len(test)) == (48, 16)
    assert not set(train.paths) & set(test.paths)
    image, pose = train[0]
    assert image.shape == (3, 96, 128)
    rotation = pose.reshape(3, 4)[:, :3]
    assert torch.allclose(rotation @ rotation.T, torch.eye(3).double())
    gaussians = Gaussians.load(folder / "gaussians.npz")
    assert len(gaussians.means) == pytest.approx(data.SMALL.gaussians, rel=0.05)


def test_a_photograph_shows_the_room_from_its_pose(root):
    folder = root / data.SMALL.name
    image, pose = data.SevenScenes(folder, train=True)[5]
    gaussians, camera = Gaussians.load(folder / "gaussians.npz"), data.load_camera(folder)
    photograph = image * data.STD + data.MEAN
    here, elsewhere = (
        splat(gaussians, camera, each.float())
        for each in (pose.reshape(3, 4), torch.from_numpy(walk(0, 24)[12]))
    )
    assert (photograph - here).abs().mean() < 0.07 < (photograph - elsewhere).abs().mean()


def test_blurred_and_empty_pictures_score_worse():
    draw = np.random.default_rng(0)
    good = [Scene(seed, 64, 96).frame(0) for seed in range(12)]
    quality = NaturalScore(good)
    blurred = good[0].reshape(8, 8, 12, 8, 3).mean((1, 3)).repeat(8, 0).repeat(8, 1)
    noise = draw.random((64, 96, 3), dtype=np.float32)
    usual = max(quality.score(picture) for picture in good)
    for bad in (blurred, noise, np.zeros((64, 96, 3), np.float32)):
        assert quality.score(bad) > usual


# The script


def run(*options):
    return subprocess.run(
        [sys.executable, "-m", "pitstop.workloads.pose_regression.slow", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_script_keeps_the_contract_and_repeats_itself(root, tmp_path):
    shared = ("--small", "--steps", "2", "--device", "cpu", "--data", str(root), *FEW)
    first, second = (run(*shared, "--out", str(tmp_path / name)) for name in "ab")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[0].startswith("[val] step=0 trans_err=")
    assert re.match(r"\[rvs\] epoch=0 views=8 attempts=\d+ time=", lines[1])
    steps = re.findall(
        r"^\[step (\d)/2\] loss=\d+\.\d+ time=\d+\.\d+s$", first.stdout, re.MULTILINE
    )
    assert steps == ["1", "2"]
    assert re.fullmatch(r"\[done\] steps=2 batch=4 trans_err=[\d.]+ rot_err=[\d.]+", lines[-1])
    assert timeless(first) == timeless(second)
    assert (tmp_path / "a/checkpoint-best.pt").exists()
    assert list((tmp_path / "a").glob("events.out.tfevents.*"))
    state = torch.load(tmp_path / "a/full_checkpoint.pth", weights_only=True)
    model.PoseNetwork(model.SMALL).load_state_dict(state["model"])


def timeless(finished):
    return re.sub(r" time=\S+", "", finished.stdout)


@pytest.mark.parametrize(
    "wrong", [("--steps", "0"), ("--device", "tpu"), ("--small", "--batch_size", "49")]
)
def test_a_wrong_argument_is_one_line_and_exit_code_two(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        slow.main(list(wrong))
    assert stop.value.code == 2
    assert (
        "pose_regression: error: argument" in (error := capsys.readouterr().err) or "only" in error
    )
