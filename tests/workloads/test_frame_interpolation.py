"""The frame-interpolation workload: counts, calls, lost gradients, and the script itself."""

import re
import subprocess
import sys
import types
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pitstop.workloads.frame_interpolation import slow
from pitstop.workloads.frame_interpolation.config import (
    FOLDER,
    LossConfig,
    ModelConfig,
    NetworkConfig,
    load_config,
)
from pitstop.workloads.frame_interpolation.decoder import fallback
from pitstop.workloads.frame_interpolation.model import Batch, VQFlowNet

KERNEL_MODULE = "pitstop.workloads.frame_interpolation.dsepconv"
LOST_HEADS = ("vertical_", "horizontal_", "offset_x_", "offset_y_")
STARTED = 10  # a step after the tiny configuration's disc_start

TINY = ModelConfig(
    base_learning_rate=1e-4,
    embed_dim=3,
    n_embed=16,
    ddconfig=NetworkConfig(
        z_channels=3, ch=32, ch_mult=(1, 1), num_res_blocks=1, num_head_channels=16
    ),
    lossconfig=LossConfig(
        disc_start=5,
        disc_weight=0.8,
        disc_ndf=4,
        codebook_weight=1.0,
        perceptual_weight=1.0,
        perceptual_width=2,
    ),
)


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the kernels fails, as it does without CuPy."""
    monkeypatch.setitem(sys.modules, KERNEL_MODULE, None)


@pytest.fixture
def model() -> VQFlowNet:
    torch.manual_seed(0)
    return VQFlowNet(TINY)


@pytest.fixture
def batch() -> Batch:
    draw = torch.Generator().manual_seed(1)
    keys = ("image", "prev_frame", "next_frame")
    return {key: torch.rand(2, 32, 32, 3, generator=draw) * 2 - 1 for key in keys}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path]]:
    """Two runs with the same seed, by command and by call: what each printed and wrote."""
    data, one, two = (tmp_path_factory.mktemp(name) for name in ("data", "one", "two"))
    options = ["--small", "--steps", "2", "--device", "cpu", "--data", str(data), "--out"]
    command = [sys.executable, "-m", "pitstop.workloads.frame_interpolation.slow", *options]
    printed = subprocess.run([*command, str(one)], stdout=subprocess.PIPE, text=True, check=True)
    with redirect_stdout(StringIO()) as called:
        slow.main([*options, str(two)])
    return [(printed.stdout, one), (called.getvalue(), two)]


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def take_step(model: VQFlowNet, batch: Batch, step: int = 0) -> dict[str, float]:
    return slow.train_step(model, slow.configure_optimizers(model, 1e-4), batch, step)


def test_full_size_has_the_published_parameter_counts() -> None:
    with torch.device("meta"):
        model = VQFlowNet(load_config(FOLDER / "full.yaml").model)
    assert parameters(model.encoder) == pytest.approx(6.8e6, rel=0.02)
    assert parameters(model.decoder) == pytest.approx(15.7e6, rel=0.02)


def test_full_size_reads_as_published() -> None:
    config = load_config(FOLDER / "full.yaml")
    assert (config.data.batch_size, config.data.num_workers) == (10, 8)
    assert config.data.crop_size == (256, 256)
    assert load_config(FOLDER / "small.yaml").data.num_workers == 0


def test_a_step_encodes_six_times_and_decodes_twice(model: VQFlowNet, batch: Batch) -> None:
    calls: Counter[str] = Counter()
    watched = {
        "encoder": model.encoder,
        "quantize": model.quantize,
        "decoder": model.decoder,
        "perceptual": model.loss.perceptual_loss,
        "discriminator": model.loss.discriminator,
    }
    for name, module in watched.items():
        module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    take_step(model, batch)
    assert calls == {
        "encoder": 6,
        "quantize": 6,
        "decoder": 2,
        "perceptual": 2,
        "discriminator": 3,
    }


def test_one_batched_encoder_call_gives_the_same_numbers(model: VQFlowNet) -> None:
    frames = torch.rand(3, 2, 3, 32, 32)
    latents, features = model.encoder(frames.flatten(0, 1))
    for index, frame in enumerate(frames):
        latent, levels = model.encoder(frame)
        torch.testing.assert_close(latents[2 * index : 2 * index + 2], latent)
        for batched, level in zip(features, levels, strict=True):
            torch.testing.assert_close(batched[2 * index : 2 * index + 2], level)


def test_fallback_leaves_the_kernel_and_offset_heads_without_gradient(
    model: VQFlowNet, batch: Batch
) -> None:
    with pytest.warns(UserWarning, match="using the fallback"):
        take_step(model, batch)
    without = {name for name, each in model.decoder.named_parameters() if each.grad is None}
    heads = {name for name, _ in model.decoder.named_parameters() if name.startswith(LOST_HEADS)}
    dead = {name for name, _ in model.decoder.named_parameters() if ".out_conv." in name}
    assert heads
    assert dead
    assert without == heads | dead


def test_with_a_kernel_only_the_dead_convolutions_lack_a_gradient(
    model: VQFlowNet, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dsepconv(frame: Tensor, *weights: Tensor) -> Tensor:
        assert [tensor.shape[1] for tensor in weights] == [5, 5, 25, 25, 25]
        assert frame.shape[2:] == (36, 36)
        return frame[:, :, 2:-2, 2:-2] * sum(tensor.mean(1, keepdim=True) for tensor in weights)

    stand_in = types.ModuleType(KERNEL_MODULE)
    stand_in.dsepconv = dsepconv  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, KERNEL_MODULE, stand_in)
    take_step(model, batch)
    without = [name for name, each in model.decoder.named_parameters() if each.grad is None]
    assert without
    assert all(".out_conv." in name for name in without)


def test_fallback_of_even_masks_is_half_the_frame() -> None:
    padded = torch.rand(1, 3, 12, 12)
    half = fallback(padded, torch.full((1, 25, 8, 8), 0.5))
    torch.testing.assert_close(half, padded[:, :, 2:-2, 2:-2] / 2)


def test_the_discriminator_runs_but_does_not_learn_before_its_start(
    model: VQFlowNet, batch: Batch
) -> None:
    before = [each.clone() for each in model.loss.discriminator.parameters()]
    logs = take_step(model, batch)
    assert logs["disc_loss"] == 0.0
    assert logs["logits_real"] != 0.0
    after = list(model.loss.discriminator.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_the_discriminator_learns_once_it_has_started(model: VQFlowNet, batch: Batch) -> None:
    weight = next(model.loss.discriminator.parameters())
    before = weight.clone()
    logs = take_step(model, batch, STARTED)
    assert logs["disc_loss"] > 0.0
    assert not torch.equal(before, weight)


def test_perceptual_network_is_frozen(model: VQFlowNet, batch: Batch) -> None:
    take_step(model, batch)
    assert all(each.grad is None for each in model.loss.perceptual_loss.parameters())


def test_script_prints_what_bench_reads(runs: list[tuple[str, Path]]) -> None:
    lines = runs[0][0].splitlines()
    number = r"\d+\.\d+"
    assert re.fullmatch(rf"\[val\] step=0 psnr={number}", lines[0])
    for step in (1, 2):
        assert re.fullmatch(rf"\[step {step}/2\] loss={number} time={number}s", lines[step])
    assert re.fullmatch(rf"\[val\] step=2 psnr={number}", lines[3])
    assert re.fullmatch(rf"\[done\] steps=2 batch=\d+ psnr={number}", lines[4])
    assert len(lines) == 5


def test_script_saves_a_checkpoint_and_logs(runs: list[tuple[str, Path]]) -> None:
    out = runs[0][1]
    checkpoint = torch.load(out / "last.ckpt", weights_only=True)
    assert checkpoint["step"] == 2
    model = VQFlowNet(load_config(FOLDER / "small.yaml").model)
    model.load_state_dict(checkpoint["state_dict"])
    assert list(out.glob("events.out.tfevents.*"))


def test_same_seed_same_numbers(runs: list[tuple[str, Path]]) -> None:
    first, second = (re.sub(r"time=\S+", "", printed) for printed, _ in runs)
    assert first == second


def test_wrong_argument_is_one_line_and_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        slow.main(["--small", "--steps", "0"])
    assert stopped.value.code == 2
    assert "must be at least 1" in capsys.readouterr().err.splitlines()[-1]
