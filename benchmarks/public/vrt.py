"""VRT's training step for video deblurring: the public network, synthetic film, random weights.

Run ``python benchmarks/public/vrt.py --source PATH``, where PATH is a clone of JingyunLiang/VRT.
The README beside this file says which public options it follows, and where it cannot.
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
from frames import Film, Pixels, save, written_once
from numpy.typing import NDArray
from packaging.version import Version
from PIL import Image
from source import use_source
from summary import summary
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CLIPS, CLIP_FRAMES = 2, 12  # on disk
EPOCH = 2000  # samples, about as many as the public training set has
LEARNING_RATE, FLOW_FACTOR = 4e-4, 0.125  # the second for all that estimates motion
FLOW_KEYS = ("spynet", "deform")


def parse() -> argparse.Namespace:
    """Options; the defaults are the public ones for one GPU of eight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, help="a clone of JingyunLiang/VRT")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, help="of the crop, in pixels: 64 or more, in eights")
    parser.add_argument("--depth", type=int, help="blocks in each of the seven stages; public: 8")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--small", action="store_true", help="two frames, narrow, for a CPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    options.size = options.size or (64 if options.small else 192)
    options.depth = options.depth or (2 if options.small else 8)
    return options


class BlurredFilm(Dataset[dict[str, Tensor]]):
    """Crops of blurred clips and their sharp twins, read and turned as the public dataset does."""

    def __init__(self, root: Path, frames: int, size: int) -> None:
        self.clips = sorted(root.iterdir())
        self.frames, self.size = frames, size

    def __len__(self) -> int:
        return EPOCH

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        clip = self.clips[index % len(self.clips)]
        first = random.randint(0, CLIP_FRAMES - self.frames)
        numbers = range(first, first + self.frames)
        blurred = [read(clip / f"blurred/{number:06d}.png") for number in numbers]
        sharp = [read(clip / f"sharp/{number:06d}.png") for number in numbers]
        height, width, _ = sharp[0].shape
        top, left = random.randint(0, height - self.size), random.randint(0, width - self.size)
        both: NDArray[np.float32] = np.stack(
            [each[top : top + self.size, left : left + self.size] for each in blurred + sharp]
        )
        if random.random() < 0.5:
            both = both[:, :, ::-1]
        if random.random() < 0.5:
            both = both[:, ::-1]
        if random.random() < 0.5:
            both = both.transpose(0, 2, 1, 3)
        frames = torch.from_numpy(both.transpose(0, 3, 1, 2).copy())
        return {"L": frames[: self.frames], "H": frames[self.frames :]}


def read(path: Path) -> Pixels:
    """One whole frame, 0 to 1."""
    return np.asarray(Image.open(path), dtype=np.float32) / np.float32(255)


def write_clips(folder: Path, height: int, width: int) -> None:
    """Clips as GoPro's are stored: a folder of frames each, blurred and sharp."""
    for number in range(CLIPS):
        film = Film(number, height, width, CLIP_FRAMES)
        for frame in range(CLIP_FRAMES):
            save(film.blurred(frame), folder / f"{number:03d}/blurred/{frame:06d}.png")
            save(film.frame(frame), folder / f"{number:03d}/sharp/{frame:06d}.png")


def provide_distutils() -> None:
    """Python 3.12 has none; the public file takes LooseVersion from it, to compare two versions."""
    if importlib.util.find_spec("distutils") is None:
        version = ModuleType("distutils.version")
        version.__dict__["LooseVersion"] = Version
        sys.modules |= {"distutils": ModuleType("distutils"), "distutils.version": version}


def build(source: Path | None, clip: tuple[int, int, int], depth: int, width: int) -> nn.Module:
    """The public network as options/vrt/006_train_vrt_videodeblurring_gopro.json sets it up."""
    use_source(source, "JingyunLiang/VRT", "models/network_vrt.py", "--source")
    provide_distutils()
    network: Any = importlib.import_module("models.network_vrt")
    model: nn.Module = network.VRT(
        upscale=1,
        img_size=list(clip),
        window_size=[6, 8, 8],
        depths=[depth] * 7 + [max(1, depth // 2)] * 4,
        indep_reconsts=[9, 10],
        embed_dims=[width] * 7 + [width * 5 // 4] * 4,
        num_heads=[width // 16] * 11,
        pa_frames=2,
        deformable_groups=width // 6,
        use_checkpoint_attn=True,
        use_checkpoint_ffn=True,
        no_checkpoint_attn_blocks=[2, 3, 4],
        no_checkpoint_ffn_blocks=[1, 2, 3, 4, 5, 9],
    )
    return model


def charbonnier(output: Tensor, target: Tensor) -> Tensor:
    """The smooth L1 loss of the public options, with their epsilon."""
    return torch.sqrt((output - target) ** 2 + 1e-9).mean()


def main() -> None:
    """Train for some steps and say how long each took."""
    options = parse()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device(options.device)
    frames, width = (2, 24) if options.small else (6, 96)
    clip = (frames, options.size, options.size)
    model = build(options.source, clip, options.depth, width).to(device).train()
    print(f"VRT, {sum(each.numel() for each in model.parameters()) / 1e6:.1f} M parameters")

    height, length = (144, 256) if options.small else (720, 1280)
    data = written_once(f"vrt-{height}", lambda folder: write_clips(folder, height, length))
    loader = DataLoader(
        BlurredFilm(data, frames, options.size),
        batch_size=options.batch,
        shuffle=True,
        num_workers=options.workers,
        drop_last=True,
        pin_memory=device.type == "cuda",
    )

    normal: list[Tensor] = []
    flow: list[Tensor] = []
    for name, parameter in model.named_parameters():
        is_flow = any(key in name for key in FLOW_KEYS)
        (flow if is_flow else normal).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": normal},
        {"params": flow, "lr": LEARNING_RATE * FLOW_FACTOR},
    ]
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE, betas=(0.9, 0.99))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300_000, eta_min=1e-7)

    times: list[float] = []
    began = time.perf_counter()
    while len(times) < options.steps:
        for batch in loader:
            blurred, sharp = batch["L"].to(device), batch["H"].to(device)
            optimizer.zero_grad()
            loss = charbonnier(model(blurred), sharp)
            loss.backward()
            optimizer.step()
            scheduler.step()
            value = loss.item()
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
            print(f"step {len(times)} loss={value:.4f} time={times[-1]:.3f}s", flush=True)
            if len(times) == options.steps:
                break
    print(summary(times, options.batch, device))


if __name__ == "__main__":
    main()
