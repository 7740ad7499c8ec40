"""LDMVFI's training step for its autoencoder: the public VQ-FIGAN, synthetic film, random weights.

Run ``python benchmarks/public/ldmvfi.py --source PATH``, where PATH is a clone of danier97/LDMVFI
with one of CompVis/taming-transformers beside it. The README beside this file says what is public
and what stands in.
"""

import argparse
import importlib
import importlib.util
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import yaml
from frames import Film, save, written_once
from source import use_source
from summary import summary
from torch import Tensor, nn
from torch.nn.functional import grid_sample
from torch.utils.data import DataLoader

CONFIG = "configs/autoencoder/vqflow-f32.yaml"
VIMEO, BVIDVC = 63, 17  # samples on disk, in about the proportion of the public sets
TIMES = 10  # that an epoch has each of them: those of the public sets are long
LARGEST = 256  # pixels: the height of the public sets' frames


def parse() -> argparse.Namespace:
    """Options; what is not given is as the public configuration has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="a clone of danier97/LDMVFI")
    parser.add_argument("--taming", type=Path, help="CompVis/taming-transformers; beside --source")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--size", type=int, help="of the crop, in pixels: 256 unless --small")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--small", action="store_true", help="two levels at 64 pixels, for a CPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def configure(options: argparse.Namespace) -> dict[str, Any]:
    """The public configuration, with what the options change."""
    source = use_source(options.source, "danier97/LDMVFI", CONFIG, "--source")
    if options.taming or importlib.util.find_spec("taming") is None:
        beside = options.taming or source.resolve().parent / "taming-transformers"
        use_source(beside, "CompVis/taming-transformers", "taming/util.py", "--taming")
    config: dict[str, Any] = yaml.safe_load((source / CONFIG).read_text())
    data = config["data"]["params"]
    if options.small:
        config["model"]["params"]["ddconfig"] |= {"ch": 32, "ch_mult": [1, 2], "resolution": 64}
        data["batch_size"], data["train"]["params"]["crop_sz"] = 2, [64, 64]
    if options.batch:
        data["batch_size"] = options.batch
    if options.size:
        data["train"]["params"]["crop_sz"] = [options.size, options.size]
    if options.workers is not None:
        data["num_workers"] = options.workers
    if options.size and options.size > LARGEST:
        raise SystemExit(f"the public data are {LARGEST} pixels high: pass a smaller --size")
    return config


def stand_in(device: torch.device) -> None:
    """Give the public code what cannot be had here; everything else of it stays as it is."""
    if importlib.util.find_spec("pytorch_lightning") is None:
        lightning = ModuleType("pytorch_lightning")
        lightning.__dict__["LightningModule"] = PlainModule
        sys.modules["pytorch_lightning"] = lightning
    if device.type != "cuda":  # its module asks for CuPy and a CUDA stream when it is imported
        kernel = ModuleType("cupy_module.dsepconv")
        kernel.__dict__["FunctionDSepconv"] = deformable_separable_convolution
        sys.modules["cupy_module.dsepconv"] = kernel
        importlib.import_module("cupy_module").__dict__["dsepconv"] = kernel
    models = importlib.import_module("torchvision.models")
    vgg16 = models.vgg16
    models.__dict__["vgg16"] = lambda pretrained: vgg16()  # noqa: ARG005  LPIPS passes it by name
    lpips: Any = importlib.import_module("taming.modules.losses.lpips").LPIPS
    lpips.load_from_pretrained = positive_weights


class PlainModule(nn.Module):
    """What the public model uses of a LightningModule outside a Trainer."""

    global_step = 0

    def log_dict(self, *_values: Any, **_options: Any) -> None:
        """Nobody reads the log here."""


@torch.no_grad()
def positive_weights(lpips: nn.Module) -> None:
    """Random weights for LPIPS, but of the trained ones' sign, or its distances were not any."""
    for name, parameter in lpips.named_parameters():
        if name.startswith("lin"):
            parameter.abs_()


def deformable_separable_convolution(
    frame: Tensor, vertical: Tensor, horizontal: Tensor, down: Tensor, right: Tensor, mask: Tensor
) -> Tensor:
    """What the CuPy kernel computes, in plain torch: each pixel a weighted sum of moved samples.

    Beyond a border both neighbours of a sample are one pixel, which the kernel then counts twice.
    """
    batch, taps, height, width = vertical.shape
    tap = torch.arange(taps, device=frame.device) - (taps - 1) // 2 + 1
    y = (
        torch.arange(height, device=frame.device)[:, None]
        + tap.repeat_interleave(taps)[:, None, None]
    )
    x = torch.arange(width, device=frame.device) + tap.repeat(taps)[:, None, None]
    position = torch.stack((x + right, y + down), dim=-1)  # (N, taps * taps, H, W, 2)
    last = torch.tensor([frame.shape[3] - 1, frame.shape[2] - 1], device=frame.device)
    beyond = ((position < 0) | (position >= last)).sum(-1)
    grid = (position * 2 / last - 1).flatten(1, 2)
    samples = grid_sample(frame, grid, padding_mode="border", align_corners=True)
    kernel = (vertical.unsqueeze(2) * horizontal.unsqueeze(1)).flatten(1, 2)
    weights = kernel * mask * 2**beyond  # (N, taps * taps, H, W)
    return (samples.view(batch, -1, taps**2, height, width) * weights.unsqueeze(1)).sum(2)


def write_triplets(folder: Path) -> None:
    """Files as the public dataset expects them: Vimeo-90k septuplets and BVI-DVC quintuplets."""
    names = [f"00001/{number:04d}" for number in range(VIMEO)]
    for seed, name in enumerate(names):
        film = Film(seed, LARGEST, 448, 7)
        for frame in (3, 4, 5):
            path = folder / "vimeo_septuplet/sequences" / name / f"im{frame}.png"
            save(film.frame(frame - 1), path)
    (folder / "vimeo_septuplet/sep_trainlist.txt").write_text("\n".join(names * TIMES))
    for number in range(BVIDVC):
        film = Film(VIMEO + number, LARGEST, LARGEST, 7)
        row = np.concatenate([film.frame(frame - 1) for frame in (1, 3, 5, 7, 4)], axis=1)
        sample = folder / f"bvidvc/quintuplets/{number:05d}"
        save(row, sample / "quintuplet.png")
        for again in range(1, TIMES):
            sample.with_name(f"{number + again * BVIDVC:05d}").symlink_to(sample.name)


def train_only(optimizer: torch.optim.Optimizer, others: list[torch.optim.Optimizer]) -> None:
    """Freeze what the other optimizers train, as Lightning does around each optimizer's pass."""
    for each in [*others, optimizer]:
        for group in each.param_groups:
            for parameter in group["params"]:
                parameter.requires_grad_(each is optimizer)


def main() -> None:
    """Train for some steps and say how long each took."""
    options = parse()
    config = configure(options)
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = config["lightning"]["trainer"]["benchmark"]
    stand_in(device)
    instantiate = importlib.import_module("ldm.util").instantiate_from_config
    model = instantiate(config["model"]).to(device).train()
    model.learning_rate = config["model"]["base_learning_rate"]
    optimizers, _ = model.configure_optimizers()
    for part in (model.encoder, model.decoder):
        millions = sum(each.numel() for each in part.parameters()) / 1e6
        print(f"{type(part).__name__}, {millions:.1f} M parameters")

    data = config["data"]["params"]
    data["train"]["params"]["db_dir"] = str(written_once("ldmvfi", write_triplets))
    loader: DataLoader[dict[str, Tensor]] = DataLoader(
        instantiate(data["train"]),
        batch_size=data["batch_size"],
        num_workers=data["num_workers"],
        shuffle=True,
        drop_last=True,  # the public sets are large: a batch that is not full is one of thousands
    )

    times: list[float] = []
    began = time.perf_counter()
    while len(times) < options.steps:
        for frames in loader:
            batch = {name: each.to(device) for name, each in frames.items()}
            losses = []
            for index, optimizer in enumerate(optimizers):
                train_only(optimizer, [each for each in optimizers if each is not optimizer])
                loss = model.training_step(batch, len(times), index)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            value = losses[0].item()
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
            print(f"step {len(times)} loss={value:.4f} time={times[-1]:.3f}s", flush=True)
            if len(times) == options.steps:
                break
    print(summary(times, data["batch_size"], device))


if __name__ == "__main__":
    main()
