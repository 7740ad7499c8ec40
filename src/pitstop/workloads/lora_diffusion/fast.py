"""Trains a style LoRA on a FLUX transformer by flow matching, after its pit stop."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate.utils import set_seed
from diffusers import AutoencoderKL
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from pitstop.parts import encoded_once, pictures_of_seeds

from .config import TrainConfig, parse_arguments
from .data import StyleDataset, prepare
from .flow import latent_image_ids, pack_latents, unpack_latents
from .slow import PROMPT, FluxTrainer, Text

FUSED = True  # one kernel for all parameters of the optimizer


class ResidentLatents(StyleDataset):
    """Keeps its latents where they are used: a hundred of them take 50 MB, and no copies."""

    @torch.no_grad()
    def cache_latents(self, vae: AutoencoderKL) -> list[Tensor]:
        """The latents of every picture, on the VAE's device."""
        pictures = (self.load(name)[None].to(vae.device, vae.dtype) for name, _ in self.items)
        return [vae.encode(each).latent_dist.sample()[0] for each in pictures]


class Captions(nn.Module):
    """Both frozen encoders as one: captions in, embeddings of tokens and of the whole out."""

    def __init__(self, trainer: FluxTrainer) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(trainer.text_encoders)
        self.trainer = trainer

    def forward(self, captions: list[str]) -> tuple[Tensor, Tensor]:
        """As found."""
        return FluxTrainer.encode_prompts(self.trainer, captions)[:2]


class Trainer(FluxTrainer):
    """Encodes each caption once, and generates all validation images at once."""

    def __init__(self, config: TrainConfig, folder: Path, out: Path, device: str | None) -> None:
        super().__init__(config, folder, out, device)
        self.texts = encoded_once(Captions(self).eval(), rows=True, on=self.device)
        self.prompt = f"{PROMPT}, <{config.style}-style>"
        leave_inputs_alone(self.transformer)

    def style_dataset(self, split: str) -> StyleDataset:
        """The pictures of one split, as latents if the configuration says so."""
        vae = self.vae if self.config.cache_latents else None
        return ResidentLatents(
            self.folder, self.config.style, split, self.config.resolution, vae=vae
        )

    def train(self) -> None:
        """Validate, train, validate, save."""
        config = self.config
        pictures, held_out = self.style_dataset("train"), self.style_dataset("held-out")
        loader = self.loader(pictures)
        self.held_out = DataLoader(held_out, batch_size=config.train_batch_size)
        self.encode_captions([*pictures.items, *held_out.items])
        trainable = [each for each in self.transformer.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(
            trainable, lr=config.learning_rate, weight_decay=0.01, fused=FUSED
        )
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, T_max=config.max_train_steps, eta_min=config.learning_rate * 0.1
        )
        loader, optimizer = self.accelerator.prepare(loader, optimizer)
        self.validate(step=0)
        self.training_loop(loader, optimizer, scheduler)
        val_loss = self.validate(step=config.max_train_steps)
        self.save_lora()
        self.writer.close()
        self.report(val_loss)

    def loader(self, pictures: StyleDataset) -> DataLoader[Any]:
        """Training batches: indices into what is there already, or pictures read by workers."""
        workers = 0 if self.config.cache_latents else self.config.num_workers
        return DataLoader(
            pictures,
            batch_size=self.config.train_batch_size,
            shuffle=True,
            num_workers=workers,
            pin_memory=workers > 0,
            persistent_workers=workers > 0,
            drop_last=True,
        )

    @torch.no_grad()
    def encode_captions(self, items: list[tuple[str, str]]) -> None:
        """Ask both frozen encoders once for every caption, then let go of them."""
        captions = sorted({self.prompt, *(caption for _, caption in items)})
        size = self.config.train_batch_size
        for start in range(0, len(captions), size):
            self.texts(captions[start : start + size])
        self.texts.release()
        self.text_encoders = (None, None)
        self.pipeline.register_modules(text_encoder=None, text_encoder_2=None)
        self.pipeline.set_progress_bar_config(disable=True)

    def encode_prompts(self, prompts: list[str]) -> Text:
        """What the two frozen encoders have said about the captions."""
        prompt_embeds, pooled_embeds = self.texts(prompts)
        return prompt_embeds, pooled_embeds, self.text_ids

    @cached_property
    def text_ids(self) -> Tensor:
        """Positions of the text tokens: none."""
        return torch.zeros(self.config.max_sequence_length, 3, device=self.device)

    @cached_property
    def image_ids(self) -> Tensor:
        """Positions of the patches; all pictures are of one size."""
        side = self.config.resolution // 8
        return latent_image_ids(side, side).to(self.device, dtype=self.weight_dtype)

    @cached_property
    def schedule(self) -> tuple[Tensor, Tensor]:
        """Timesteps of the noise scheduler, and the noise level of each."""
        scheduler = self.noise_scheduler
        return scheduler.timesteps.to(self.device), scheduler.sigmas.to(self.device)

    def flow_loss(
        self, model_input: Tensor, noise: Tensor, timesteps: Tensor, text: Text
    ) -> Tensor:
        """Squared error of the predicted velocity from the latents to the noise."""
        prompt_embeds, pooled_embeds, text_ids = text
        known, levels = self.schedule
        sigmas = levels[(known == timesteps[:, None]).int().argmax(1)].to(model_input.dtype)
        sigmas = sigmas[:, None, None, None]
        noisy_input = (1.0 - sigmas) * model_input + sigmas * noise
        prediction = self.transformer(
            hidden_states=pack_latents(noisy_input),
            timestep=timesteps / 1000,
            guidance=torch.full_like(timesteps, self.config.guidance_scale),
            pooled_projections=pooled_embeds,
            encoder_hidden_states=prompt_embeds,
            txt_ids=text_ids,
            img_ids=self.image_ids,
            return_dict=False,
        )[0]
        prediction = unpack_latents(prediction, *noisy_input.shape[2:])
        return F.mse_loss(prediction.float(), (noise - model_input).float())

    def generate_images(self, step: int) -> None:
        """Pictures for the style's trigger phrase, to the log and as files."""
        config, count = self.config, self.config.num_validation_images
        prompt_embeds, pooled_embeds, _ = self.encode_prompts([self.prompt])
        with self.accelerator.autocast():
            images = pictures_of_seeds(
                self.pipeline,
                None,
                range(count),
                at_once=count,
                prompt_embeds=prompt_embeds,
                pooled_prompt_embeds=pooled_embeds,
                height=config.resolution,
                width=config.resolution,
                num_inference_steps=config.num_inference_steps,
                guidance_scale=config.guidance_scale,
            )
        self.out.joinpath("validation").mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            image.save(self.out / "validation" / f"step_{step:06d}_{number}.png")
            self.writer.add_image(
                f"validation/{number}", np.asarray(image), step, dataformats="HWC"
            )


def leave_inputs_alone(transformer: torch.nn.Module) -> None:
    """Spare each LoRA layer a cast to float32, which autocast would take back at once."""
    for module in transformer.modules():
        if isinstance(module, BaseTunerLayer):
            module.cast_input_dtype_enabled = False


def main(argv: list[str] | None = None) -> None:
    """Train one LoRA from the command line."""
    config, arguments = parse_arguments(argv)
    folder = prepare(small=arguments.small, root=arguments.data)
    set_seed(arguments.seed)
    Trainer(config, folder, arguments.out, arguments.device).train()


if __name__ == "__main__":
    main()
