"""Settings: the YAML files of the project as frozen values."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from .model import ModelSettings

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class DataSettings:
    """What the DATA section holds: which clips, and how they are cut."""

    train_split: str
    val_split: str
    clip_len: int
    crop_size: int


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """What the TRAIN section holds: the loop, its loader and its switches."""

    steps: int
    batch_size: int
    accumulation_steps: int
    num_workers: int
    use_ram_cache: bool
    ram_cache_gb: float
    use_precomputed_voxels: bool
    compile_model: bool
    channels_last: bool
    mixed_precision: bool
    lr: float
    max_grad_norm: float
    val_interval: int


@dataclass(frozen=True, slots=True)
class LossSettings:
    """What the LOSS section holds: two terms and the size of the feature network."""

    charbonnier_delta: float
    vgg_weight: float
    vgg_width: int
    vgg_resolutions: int


@dataclass(frozen=True, slots=True)
class Settings:
    """One whole configuration."""

    model: ModelSettings
    data: DataSettings
    train: TrainSettings
    loss: LossSettings


def load_settings(path: Path) -> Settings:
    """Read a YAML file; a ``BASE`` in it names the file whose values it overrides."""
    raw = _load(path)
    return Settings(
        model=_section(ModelSettings, raw["MODEL"]),
        data=_section(DataSettings, raw["DATA"]),
        train=_section(TrainSettings, raw["TRAIN"]),
        loss=_section(LossSettings, raw["LOSS"]),
    )


def _load(path: Path) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load(path.read_text())
    base = raw.pop("BASE", None)
    if base is None:
        return raw
    whole = _load(path.parent / base)
    return {name: values | raw.get(name, {}) for name, values in whole.items()}


def _section(kind: type[Section], raw: dict[str, Any]) -> Section:
    """Fill a dataclass from upper-case keys; lists become tuples."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {name: raw[name.upper()] for name in names}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
