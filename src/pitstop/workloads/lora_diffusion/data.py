"""Captioned pictures, a model folder and published LoRAs on disk, and the project's Dataset."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, FluxPipeline
from peft import get_peft_model_state_dict
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from pitstop.workloads.cache import dataset
from pitstop.workloads.scenes import to_bytes

from . import model
from .cards import STYLES, draw_card

VERSION = 1  # raise when other files are written
SEED = 2024
CALIBRATION_PICTURES = 8

Item = dict[str, Tensor | str]


@dataclass(frozen=True, slots=True)
class DataSize:
    """How many pictures of each style, how large, and the model folder that goes with them."""

    side: int
    train: int
    held_out: int
    calibration_side: int
    published_rank: int
    model: model.ModelSize


FULL = DataSize(1024, 96, 16, 256, 16, model.FULL)
SMALL = DataSize(128, 80, 16, 128, 4, model.SMALL)


def prepare(*, small: bool, root: Path | None = None) -> Path:
    """The folder with images/, metadata.jsonl, model/ and loras/, generated on first use."""
    size, name = (SMALL, "small") if small else (FULL, "full")
    items = len(STYLES) * (size.train + size.held_out) + 1 + len(STYLES)

    def build(folder: Path) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            yield from _build(folder, size)

    return dataset(f"lora_diffusion-{name}", VERSION, build, items, root)


def _build(folder: Path, size: DataSize) -> Iterator[None]:
    captions = []
    for caption in _write_pictures(folder, size):
        captions.append(caption)
        yield
    pipeline = model.pipeline(size.model, captions, _calibration_pictures(size))
    pipeline.save_pretrained(folder / "model")
    yield
    for style in STYLES:
        _publish_lora(pipeline, folder / "loras" / style, size.published_rank)
        yield


def _write_pictures(folder: Path, size: DataSize) -> Iterator[str]:
    """PNG files and one line of metadata each; yields the captions."""
    (folder / "images").mkdir()
    with (folder / "metadata.jsonl").open("w") as metadata:
        for style_number, style in enumerate(STYLES):
            for number in range(size.train + size.held_out):
                card = draw_card(SEED + 10_000 * style_number + number, style)
                file_name = f"images/{style}_{number:04d}.png"
                Image.fromarray(to_bytes(card.picture(size.side))).save(folder / file_name)
                split = "train" if number < size.train else "held-out"
                line = {"file_name": file_name, "text": card.caption(), "style": style}
                metadata.write(json.dumps(line | {"split": split}) + "\n")
                yield card.caption()


def _calibration_pictures(size: DataSize) -> Tensor:
    cards = [draw_card(SEED + number, STYLES[0]) for number in range(CALIBRATION_PICTURES)]
    pictures = np.stack([card.picture(size.calibration_side) for card in cards])
    return torch.from_numpy(pictures).permute(0, 3, 1, 2) * 2 - 1  # (B, 3, H, W)


def _publish_lora(pipeline: FluxPipeline, folder: Path, rank: int) -> None:
    """A LoRA as somebody else would have published it, for serving without training first."""
    pipeline.transformer.add_adapter(model.lora_config(rank, untrained=False), "published")
    weights = get_peft_model_state_dict(pipeline.transformer, adapter_name="published")
    pipeline.save_lora_weights(folder, transformer_lora_layers=weights)
    pipeline.transformer.delete_adapters("published")


class StyleDataset(Dataset[Item]):
    """The pictures of one style with their captions, as pixels or as latents encoded once."""

    def __init__(
        self,
        folder: Path,
        style: str,
        split: str,
        resolution: int,
        vae: AutoencoderKL | None = None,
    ) -> None:
        self.folder = folder
        self.resolution = resolution
        self.items = []
        for line in (folder / "metadata.jsonl").read_text().splitlines():
            item = json.loads(line)
            if item["style"] == style and item["split"] == split:
                self.items.append((item["file_name"], item["text"]))
        if not self.items:
            raise ValueError(f"no {split} pictures of style {style!r} in {folder}")
        self.cached_latents = self.cache_latents(vae) if vae is not None else None

    @torch.no_grad()
    def cache_latents(self, vae: AutoencoderKL) -> list[Tensor]:
        """The latents of every picture, on the CPU."""
        latents = []
        for file_name, _ in self.items:
            pixels = self.load(file_name).unsqueeze(0)
            encoded = vae.encode(pixels.to(vae.device, dtype=vae.dtype)).latent_dist.sample()
            latents.append(encoded[0].cpu())
        return latents

    def load(self, file_name: str) -> Tensor:
        """A picture resized, cropped to a square and scaled to -1 to 1."""
        image = Image.open(self.folder / file_name).convert("RGB")
        scale = self.resolution / min(image.size)
        width, height = (round(side * scale) for side in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
        left, top = (width - self.resolution) // 2, (height - self.resolution) // 2
        image = image.crop((left, top, left + self.resolution, top + self.resolution))
        return torch.from_numpy(np.asarray(image, np.float32) / 127.5 - 1).permute(2, 0, 1)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        file_name, caption = self.items[index]
        if self.cached_latents is not None:
            return {"latents": self.cached_latents[index], "caption": caption}
        return {"pixel_values": self.load(file_name), "caption": caption}
