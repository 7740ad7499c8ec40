"""Settings of a training run, and the command line that changes them."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from .cards import STYLES


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of one training run; the defaults are the full size."""

    style: str = STYLES[0]
    resolution: int = 1024
    train_batch_size: int = 4
    gradient_accumulation_steps: int = 4
    max_train_steps: int = 400
    learning_rate: float = 5e-4
    rank: int = 64
    max_sequence_length: int = 512
    mixed_precision: str = "bf16"
    cache_latents: bool = True
    num_workers: int = 8
    guidance_scale: float = 3.5
    num_validation_images: int = 4
    num_inference_steps: int = 20
    validation_steps: int = 100
    save_every: int = 100


SMALL = TrainConfig(
    resolution=128,
    gradient_accumulation_steps=2,
    max_train_steps=300,
    learning_rate=1e-3,
    rank=32,
    max_sequence_length=64,
    mixed_precision="no",
    num_workers=2,
    num_inference_steps=4,
)


def parse_arguments(argv: list[str] | None) -> tuple[TrainConfig, argparse.Namespace]:
    """The command line: what to train, and where things are."""
    parser = argparse.ArgumentParser(description="Train a style LoRA by flow matching.")
    parser.add_argument("--small", action="store_true", help="tiny networks, for a CPU")
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("--data", type=Path, help="folder for generated data")
    parser.add_argument("--out", type=Path, default=Path("runs/lora_diffusion"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--style", choices=STYLES, default=STYLES[0])
    parser.add_argument("--cache-latents", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args(argv)
    if arguments.steps is not None and arguments.steps < 1:
        parser.error("--steps must be at least 1")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no GPU that torch can use")
    config = SMALL if arguments.small else TrainConfig()
    config = replace(
        config,
        style=arguments.style,
        cache_latents=arguments.cache_latents,
        max_train_steps=arguments.steps or config.max_train_steps,
    )
    return config, arguments
