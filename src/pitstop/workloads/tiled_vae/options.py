"""The script's options: two sizes, any value of which a flag can replace."""

import argparse
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import torch

from .data import FRAMES, clips_at_least
from .model import VaeConfig


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a run depends on; the defaults are the full size."""

    small: bool = False
    train: bool = False
    checkpoint: Path | None = None
    steps: int = 0  # 0: as many as suit the mode
    data: Path | None = None
    out: Path = Path("runs/tiled_vae")
    seed: int = 0
    device: str = "cpu"
    offload_device: str = "cpu"
    vae: VaeConfig = field(default_factory=VaeConfig)
    frames: int = 5
    height: int = 720
    width: int = 1280
    tile: int = 512
    overlap: int = 64
    crop: int = 256
    batch: int = 2
    learning_rate: float = 1e-4


FULL = Options()
SMALL = Options(
    small=True,
    vae=VaeConfig(channels=(16, 32, 64, 64), layers=1, groups=4),
    height=64,
    width=112,
    tile=48,
    overlap=16,
    crop=64,
    batch=2,
    learning_rate=2e-4,
)


def parse(description: str, argv: list[str] | None) -> Options:
    """Options from the command line; impossible ones end the program with one line."""
    parser = argparse.ArgumentParser(prog="tiled_vae", description=description)
    parser.add_argument("--small", action="store_true", help="the same code on a small network")
    parser.add_argument("--train", action="store_true", help="train instead of reconstructing")
    parser.add_argument("--checkpoint", type=Path, help="weights to start from")
    parser.add_argument("--steps", type=positive, help="clips to reconstruct, or optimizer steps")
    parser.add_argument("--data", type=Path, help="root of the dataset cache")
    parser.add_argument("--out", type=Path, help="folder for frames, checkpoints and logs")
    parser.add_argument("--seed", type=int)
    default_device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default_device)
    parser.add_argument("--offload-device", help="where finished tiles are gathered")
    for name in ("frames", "height", "width", "tile", "overlap", "crop", "batch"):
        parser.add_argument(f"--{name}", type=positive)
    parser.add_argument("--learning-rate", type=float)
    flags = vars(parser.parse_args(argv))
    given = {each.name: flags.get(each.name) for each in fields(Options)}
    size = SMALL if flags["small"] else FULL
    options = replace(size, **{name: value for name, value in given.items() if value is not None})
    if complaint := complaint_about(options):
        parser.error(complaint)
    steps = 300 if options.small or options.train else 12
    return replace(options, steps=options.steps or steps)


def positive(text: str) -> int:
    """A whole number of at least one, for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def complaint_about(options: Options) -> str:
    """What makes these options impossible, in one line; empty if nothing does."""
    if options.frames % 4 != 1 or options.frames > FRAMES:
        return f"--frames must be 4k+1 and at most {FRAMES}: {options.frames}"
    edges = (options.height, options.width, options.tile, options.overlap, options.crop)
    if any(edge % 8 for edge in edges):
        return "--height, --width, --tile, --overlap and --crop must be multiples of 8"
    if options.overlap >= options.tile:
        return f"--overlap must be less than --tile: {options.overlap}, {options.tile}"
    if clips_at_least(options.small, options.height, options.width) is None:
        return f"no clips on disk are as large as {options.height}x{options.width}"
    if options.checkpoint and not options.checkpoint.is_file():
        return f"no such checkpoint: {options.checkpoint}"
    return ""
