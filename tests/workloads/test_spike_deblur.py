import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn
from torch.nn import functional as F

from pitstop.workloads.spike_deblur import attention, data, slow, warping
from pitstop.workloads.spike_deblur.losses import PerceptualLoss, charbonnier
from pitstop.workloads.spike_deblur.model import SpikeVRT
from pitstop.workloads.spike_deblur.settings import load_settings

FOLDER = Path(slow.__file__).parent
FULL = load_settings(FOLDER / "gopro_spike.yaml")
SMALL = load_settings(FOLDER / "gopro_spike_small.yaml")
TINY = replace(
    SMALL.model, depths=(2,) * 7 + (1,) * 4, embed_dims=(8,) * 11, flow_widths=(4,), heads=2
)
MICRO_BATCHES = 2
pytestmark = pytest.mark.filterwarnings("ignore")  # the system as found warns, and trains on


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data.prepare(True, folder)
    return folder


@pytest.fixture(scope="module")
def clips(root):
    return data.prepare(True, root)


@pytest.fixture(scope="module")
def finished(root, tmp_path_factory):
    """The script end to end with its loader processes: what it printed, what it left."""
    out = tmp_path_factory.mktemp("out")
    command = [sys.executable, "-m", "pitstop.workloads.spike_deblur.slow", "--small"]
    command += ["--steps", "2", "--device", "cpu", "--data", str(root), "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout, out


def tiny_clip():
    return torch.rand(1, 4, 8, 32, 32, generator=torch.Generator().manual_seed(0))


def calls_of(modules, run):
    """How often each of the modules is called while ``run`` runs."""
    counts = [0] * len(modules)

    def count(index):
        def hook(*_):
            counts[index] += 1

        return hook

    handles = [each.register_forward_hook(count(i)) for i, each in enumerate(modules)]
    run()
    for handle in handles:
        handle.remove()
    return counts


# The network


def test_full_size_has_the_parameters_of_vrt():
    with torch.device("meta"):
        network = SpikeVRT(FULL.model)
    count = sum(weight.numel() for weight in network.parameters())
    assert count / 1e6 == pytest.approx(18.3, rel=0.1)
    assert sum(weight.numel() for weight in network.flow.parameters()) == 1_440_300  # SpyNet's own
    assert len(network.stages) + len(network.refine) == 11
    assert FULL.model.window == (6, 8, 8)


def test_each_stage_aligns_frame_by_frame_and_flow_runs_twice():
    network = SpikeVRT(TINY)
    aligns = [stage.align for stage in network.stages]
    counts = calls_of([network.flow, *aligns], lambda: network(tiny_clip()))
    assert counts == [2] + [2 * (4 - 1)] * 7  # three pairs of neighbours, both ways


def test_checkpointed_blocks_run_again_in_backward():
    network = SpikeVRT(TINY)
    blocks = [each for each in network.modules() if isinstance(each, attention.Block)]
    layers = [block.attention for block in blocks] + [block.mlp for block in blocks]
    assert len(blocks) == 18
    assert set(calls_of(layers, lambda: network(tiny_clip()).sum().backward())) == {2}


def test_every_parameter_gets_a_gradient_after_the_first_update():
    torch.manual_seed(0)
    network = SpikeVRT(replace(TINY, drop_path_rate=0.0))
    for zeroed in (network.last, *(level[-1] for level in network.flow.levels)):
        nn.init.normal_(zeroed.weight, std=0.1)  # as they are once training has begun
    for stage in network.stages:
        nn.init.normal_(stage.align.offsets[-1].weight, std=0.1)
    network(tiny_clip()).square().mean().backward()
    still = [name for name, weight in network.named_parameters() if not weight.grad.any()]
    assert still == []


def test_training_starts_from_the_blurred_frames():
    torch.manual_seed(0)
    clip = tiny_clip()
    with torch.no_grad():
        restored = SpikeVRT(TINY).eval()(clip)
    assert (restored - clip[:, :, :3]).abs().max() < 1e-6


def test_drop_path_drops_whole_samples_and_keeps_the_mean():
    torch.manual_seed(0)
    out = attention.drop_path(torch.ones(1000, 3), 0.2, training=True)
    assert set(out.flatten().tolist()) == {0.0, 1.25}
    assert (out == out[:, :1]).all()
    assert out.mean() == pytest.approx(1, abs=0.05)
    assert (attention.drop_path(torch.ones(3), 0.2, training=False) == 1).all()


# Windows and attention


def test_windows_join_to_what_was_split():
    clip = torch.arange(2 * 4 * 8 * 12 * 3).view(2, 4, 8, 12, 3)
    windows = attention.split_windows(clip, (2, 4, 4))
    assert windows.shape == (2 * 2 * 2 * 3, 32, 3)
    assert torch.equal(attention.join_windows(windows, (2, 4, 4), (4, 8, 12)), clip)


def test_shifted_windows_do_not_look_across_the_border():
    mask = attention.shift_mask((2, 8, 8), (2, 4, 4), (0, 2, 2), torch.device("cpu"))
    assert mask.shape == (4, 32, 32)
    assert not mask[0].any()  # inside: all see all
    place = torch.arange(8).roll(-2)[4:]  # the rows that the last window holds after the shift
    apart = (place[:, None] < 2) != (place[None] < 2)
    assert torch.equal(mask[1, :16:4, :16:4] != 0, torch.zeros(4, 4, dtype=torch.bool))
    assert torch.equal(mask[2, :16:4, :16:4] != 0, apart)


def test_mutual_attention_draws_from_one_frame_what_the_other_asks_for():
    torch.manual_seed(0)
    layer = attention.WindowAttention(8, (2, 2, 2), heads=2, mutual=True)
    tokens = torch.rand(1, 8, 8) * 4  # two frames of 2x2
    changed = torch.cat([tokens[:, :4], torch.rand(1, 4, 8) * 4], 1)
    with torch.no_grad():
        layer.project.weight.copy_(torch.eye(8, 16))  # the mutual half of the output alone
        layer.project.bias.zero_()
        asked, asked_else = layer(tokens, None)[:, :4], layer(changed, None)[:, :4]
        values = layer.qkv_mutual(tokens[:, :4] + layer.place_code)[..., 16:]
    assert not torch.allclose(asked, asked_else)
    for drawn in (asked, asked_else):  # always a mean of the first frame's values
        assert (drawn <= values.amax(1) + 1e-5).all()
        assert (drawn >= values.amin(1) - 1e-5).all()


# Warping


def test_deformable_convolution_without_offsets_is_a_convolution():
    x, weight, bias = torch.rand(2, 8, 6, 7), torch.rand(5, 8, 3, 3), torch.rand(5)
    offset, mask = torch.zeros(2, 4 * 18, 6, 7), torch.ones(2, 4 * 9, 6, 7)
    out = warping.deform_conv(x, offset, mask, weight, bias)
    assert torch.allclose(out, F.conv2d(x, weight, bias, padding=1), atol=1e-5)


def test_deformable_offsets_are_y_then_x_for_each_group_and_tap():
    x, weight = torch.rand(1, 4, 6, 7), torch.zeros(4, 4, 3, 3)
    weight[range(4), range(4), 1, 1] = 1  # each channel by itself, centre tap
    offset = torch.zeros(1, 2, 9, 2, 6, 7)
    offset[:, 0, 4, 0] = 1  # the first group looks one row down
    offset[:, 1, 4, 1] = -2  # the second two columns to the left
    mask = torch.full((1, 18, 6, 7), 0.5)
    out = warping.deform_conv(x, offset.view(1, 36, 6, 7), mask, weight, torch.zeros(4))
    down, left = F.pad(x[:, :2, 1:], (0, 0, 0, 1)), F.pad(x[:, 2:, :, :-2], (2, 0))
    assert torch.allclose(out, torch.cat([down, left], 1) / 2, atol=1e-5)


def test_deformable_convolution_is_torchvisions():
    operators = pytest.importorskip("torchvision.ops")
    x, weight, bias = torch.rand(2, 8, 6, 7), torch.rand(5, 8, 3, 3), torch.rand(5)
    offset, mask = torch.randn(2, 4 * 18, 6, 7) * 3, torch.rand(2, 4 * 9, 6, 7)
    theirs = operators.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask)
    assert torch.allclose(warping.deform_conv(x, offset, mask, weight, bias), theirs, atol=1e-4)


def test_warping_fetches_from_where_the_flow_points():
    x = torch.rand(1, 2, 5, 6)
    flow = torch.zeros(1, 2, 5, 6)
    flow[:, 0] = 1.5
    warped = warping.flow_warp(x, flow)
    assert torch.allclose(warped[..., :4], (x[..., 1:5] + x[..., 2:]) / 2, atol=1e-5)
    corners = warping.flow_warp(x, flow, "nearest4")
    assert corners.shape == (1, 8, 5, 6)
    assert torch.allclose(corners[:, :2, :, :4], x[..., 1:5])
    assert torch.allclose(corners[:, 4:6, :, :4], x[..., 2:])


# Losses


def test_the_feature_network_is_frozen_and_always_the_same():
    first, second = PerceptualLoss(8, 3), PerceptualLoss(8, 3)
    assert not any(weight.requires_grad for weight in first.parameters())
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    with torch.device("meta"):
        vgg19 = PerceptualLoss(FULL.loss.vgg_width, FULL.loss.vgg_resolutions)
    assert sum(weight.numel() for weight in vgg19.parameters()) == 20_024_384  # VGG19's layers


def test_losses_vanish_on_equal_clips():
    clip = torch.rand(1, 2, 3, 16, 16)
    assert PerceptualLoss(8, 3)(clip, clip) == 0
    assert charbonnier(clip, clip, 0.001) == pytest.approx(0.001)


# The data


def test_a_voxel_is_the_light_of_its_bin(clips):
    name = "00000007"
    voxel = torch.load(clips / "Train" / "GOPR0000" / "spike_vox" / f"{name}.pt", weights_only=True)
    assert voxel.shape == (5, 48, 64)
    sample = data.SpikeDeblurDataset(clips, "train", 1, 5)[7]
    blurred, sharp = sample[0][0, :3].mean(0), sample[1][0].mean(0)
    assert (voxel.mean(0) - blurred).abs().max() < 0.02  # all bins together: the exposure
    assert (voxel[2] - sharp).square().mean() < 0.5 * (blurred - sharp).square().mean()


def test_voxels_counted_on_the_fly_are_the_precomputed_ones(clips):
    stored = data.SpikeDeblurDataset(clips, "test", 4, 5)[0]
    counted = data.SpikeDeblurDataset(clips, "test", 4, 5, use_precomputed_voxels=False)[0]
    assert torch.equal(stored[0], counted[0])


def test_short_clips_are_skipped_and_missing_voxels_become_zeros(clips):
    assert len(list((clips / "Train").iterdir())) == 11
    train = data.SpikeDeblurDataset(clips, "train", 4, 5, crop=32)
    assert len(train) == 10 * (12 - 4 + 1)
    third = data.SpikeDeblurDataset(clips, "train", 12, 5)[2][0]
    empty = [not frame[3:].any() for frame in third]
    assert [index for index, is_empty in enumerate(empty) if is_empty] == [5, 6]


def test_the_split_is_found_in_either_case_and_an_empty_one_only_warns(clips, capsys):
    assert len(data.SpikeDeblurDataset(clips, "test", 4, 5)) == 6
    assert len(data.SpikeDeblurDataset(clips, "validation", 4, 5, ram_cache_gb=1)) == 0
    assert "no samples found" in capsys.readouterr().out


def test_the_cache_holds_every_frame_until_it_is_full(clips, capsys):
    train = data.SpikeDeblurDataset(clips, "train", 4, 5, ram_cache_gb=1)
    assert "Cache preloaded: 360 items, 0.0GB / 1.0GB" in capsys.readouterr().out
    assert len(train._cache) == 10 * 12 * 3
    assert all(type(array) is np.ndarray for array in train._cache.values())
    plain = data.SpikeDeblurDataset(clips, "train", 4, 5)
    assert torch.equal(train[5][0], plain[5][0])
    assert len(data.SpikeDeblurDataset(clips, "train", 4, 5, ram_cache_gb=1e-5)._cache) == 1


# The script


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    torch.manual_seed(0)
    settings = replace(SMALL, model=TINY, train=replace(SMALL.train, steps=4))
    trainer = slow.Trainer(settings, torch.device("cpu"), tmp_path_factory.mktemp("trainer"))
    yield trainer
    trainer.writer.close()


def test_the_scheduler_moves_with_every_micro_batch(trainer):
    before = trainer.scheduler.last_epoch
    clip = tiny_clip()
    for _ in range(MICRO_BATCHES):
        trainer.micro_batch((clip, clip[:, :, :3]))
    trainer.update()
    assert trainer.scheduler.last_epoch - before == MICRO_BATCHES


def test_a_prediction_out_of_range_has_no_gradient(trainer):
    restored = torch.full((1, 1, 3, 16, 16), 1.5, requires_grad=True)
    trainer.loss(restored, torch.zeros(1, 1, 3, 16, 16)).backward()
    assert not restored.grad.any()


def test_a_loss_that_is_not_a_number_ends_the_run(trainer, capsys):
    clip = tiny_clip()
    with pytest.raises(SystemExit):
        trainer.micro_batch((clip * torch.nan, clip[:, :, :3]))
    assert "NaN/Inf detected" in capsys.readouterr().out


def test_the_script_prints_the_lines_that_a_reader_needs(finished):
    printed, _ = finished
    steps = r"^\[step (\d)/2\] loss=\d\.\d+ .*time=\d+\.\d+s$"
    assert re.findall(steps, printed, re.MULTILINE) == ["1", "2"]
    assert re.findall(r"^\[val\] step=(\d) psnr=\d+\.\d+", printed, re.MULTILINE) == ["0", "2"]
    last = printed.splitlines()[-1]
    assert re.fullmatch(r"\[done\] steps=2 batch=2 psnr=\d+\.\d+", last)


def test_the_script_leaves_a_checkpoint_and_a_tensorboard_log(finished):
    _, out = finished
    weights = torch.load(out / "last.pth", weights_only=True)
    SpikeVRT(SMALL.model).load_state_dict(weights)
    assert list((out / "tensorboard").glob("events.out.tfevents.*"))


def test_the_same_seed_gives_the_same_losses(root, tmp_path, capsys):
    config = tmp_path / "tiny.yaml"
    model = {"EMBED_DIMS": [8] * 11, "FLOW_WIDTHS": [4]}
    tiny = {"BASE": str(FOLDER / "gopro_spike_small.yaml"), "MODEL": model}
    config.write_text(yaml.safe_dump(tiny))
    command = ["--small", "--config", str(config), "--steps", "2", "--accumulate", "1"]
    command += ["--workers", "0", "--device", "cpu", "--data", str(root), "--out", str(tmp_path)]
    printed = []
    for _ in range(2):
        slow.main(command)
        printed.append(re.findall(r"(?:loss|psnr)=(\S+)", capsys.readouterr().out))
    assert len(printed[0]) == 5
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "wrong", [["--steps", "0"], ["--accumulate", "-1"], ["--config", "nowhere.yaml"]]
)
def test_a_wrong_argument_is_one_line(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        slow.main(["--small", *wrong])
    assert ended.value.code == 2
    assert f"error: {wrong[0]}" in capsys.readouterr().err.splitlines()[-1]


def test_command_line_values_come_before_those_of_the_file():
    arguments = slow.parse_arguments(["--small", "--steps", "7", "--accumulate", "1"])
    settings = slow.settings_of(arguments)
    assert (settings.train.steps, settings.train.accumulation_steps) == (7, 1)
    assert settings.train.num_workers == SMALL.train.num_workers
    assert settings.model == SMALL.model
