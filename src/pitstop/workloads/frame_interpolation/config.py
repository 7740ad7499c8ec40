"""The YAML file's sections as typed values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Widths and depths that encoder and decoder share."""

    z_channels: int
    ch: int
    ch_mult: tuple[int, ...]
    num_res_blocks: int
    num_head_channels: int


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Weights of the loss terms, and the step at which the GAN joins in."""

    disc_start: int
    disc_weight: float
    disc_ndf: int
    codebook_weight: float
    perceptual_weight: float
    perceptual_width: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The autoencoder, its codebook and its loss."""

    base_learning_rate: float
    embed_dim: int
    n_embed: int
    ddconfig: NetworkConfig
    lossconfig: LossConfig


@dataclass(frozen=True, slots=True)
class DataConfig:
    """What the loaders do."""

    batch_size: int
    num_workers: int
    crop_size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TrainerConfig:
    """How long to train, and how often to validate."""

    benchmark: bool
    max_steps: int
    val_check_interval: int


@dataclass(frozen=True, slots=True)
class Config:
    """One training run."""

    model: ModelConfig
    data: DataConfig
    trainer: TrainerConfig


def load_config(path: Path) -> Config:
    """Read one YAML file."""
    sections: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())
    model, data = sections["model"], sections["data"]
    network = {**model["ddconfig"], "ch_mult": tuple(model["ddconfig"]["ch_mult"])}
    parts = {"ddconfig": NetworkConfig(**network), "lossconfig": LossConfig(**model["lossconfig"])}
    return Config(
        model=ModelConfig(**{**model, **parts}),
        data=DataConfig(**{**data, "crop_size": tuple(data["crop_size"])}),
        trainer=TrainerConfig(**sections["trainer"]),
    )
