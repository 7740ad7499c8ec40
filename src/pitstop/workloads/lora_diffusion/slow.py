"""Trains a style LoRA on a FLUX transformer by flow matching, as found."""

import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline
from diffusers.training_utils import cast_training_params, compute_density_for_timestep_sampling
from peft import get_peft_model_state_dict
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from .config import TrainConfig, parse_arguments
from .data import StyleDataset, prepare
from .flow import latent_image_ids, pack_latents, sigmas_of, unpack_latents
from .model import lora_config

DTYPES = {"bf16": torch.bfloat16, "no": torch.float32}
VALIDATION_SEED = 1234
VALIDATION_LEVELS = range(31, 1000, 62)  # 16 timesteps from pure noise to none
PROMPT = "a large red circle above a small white square on blue ground"

Text = tuple[Tensor, Tensor, Tensor]  # prompt embeddings, pooled embeddings, text ids


class FluxTrainer:
    """Holds the frozen parts, the transformer with its LoRA, and the training loop."""

    def __init__(self, config: TrainConfig, folder: Path, out: Path, device: str | None) -> None:
        self.config = config
        self.folder = folder
        self.model_dir = folder / "model"
        self.out = out
        self.weight_dtype = DTYPES[config.mixed_precision]
        self.accelerator = Accelerator(
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            mixed_precision=config.mixed_precision,
            cpu=device == "cpu",
        )
        self.device = self.accelerator.device
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cuda.enable_cudnn_sdp(False)  # its backward fails on torch 2.11
        self.load_base_models()
        self.writer = SummaryWriter(out / "logs")

    def load_base_models(self) -> None:
        """Load the pipeline, take it apart and freeze everything but the LoRA."""
        self.pipeline = FluxPipeline.from_pretrained(self.model_dir, torch_dtype=self.weight_dtype)
        self.transformer = self.pipeline.transformer
        self.vae = self.pipeline.vae
        self.text_encoders = (self.pipeline.text_encoder, self.pipeline.text_encoder_2)
        self.tokenizers = (self.pipeline.tokenizer, self.pipeline.tokenizer_2)
        scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(
            self.model_dir, subfolder="scheduler"
        )
        self.noise_scheduler = copy.deepcopy(scheduler)
        for part in (self.vae, self.transformer, *self.text_encoders):
            part.to(self.device)
            part.requires_grad_(False)
        self.transformer.add_adapter(lora_config(self.config.rank), adapter_name=self.config.style)
        cast_training_params(self.transformer, dtype=torch.float32)

    def style_dataset(self, split: str) -> StyleDataset:
        """The pictures of one split, as latents if the configuration says so."""
        vae = self.vae if self.config.cache_latents else None
        return StyleDataset(self.folder, self.config.style, split, self.config.resolution, vae=vae)

    def train(self) -> None:
        """Validate, train, validate, save."""
        config = self.config
        loader = DataLoader(
            self.style_dataset("train"),
            batch_size=config.train_batch_size,
            shuffle=True,
            num_workers=config.num_workers,
            pin_memory=True,
            persistent_workers=True,
            drop_last=True,
        )
        self.held_out = DataLoader(
            self.style_dataset("held-out"), batch_size=config.train_batch_size
        )
        trainable = [each for each in self.transformer.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(trainable, lr=config.learning_rate, weight_decay=0.01)
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

    def training_loop(self, loader: Any, optimizer: Any, scheduler: Any) -> None:
        """Run over the data until the steps are done, several batches to a step."""
        config, accelerator, step = self.config, self.accelerator, 0
        start = time.perf_counter()
        while True:
            for batch in loader:
                with accelerator.accumulate(self.transformer):
                    with accelerator.autocast():
                        loss = self.compute_loss(batch)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(self.transformer.parameters(), max_norm=1.0)
                    optimizer.step()
                    scheduler.step()  # pit: scheduler-step
                    optimizer.zero_grad(set_to_none=True)
                if not accelerator.sync_gradients:
                    continue
                step += 1
                self.log_step(step, loss.item(), time.perf_counter() - start)
                if step % config.save_every == 0 or step == config.max_train_steps:
                    self.save_checkpoint(step, optimizer)
                if step >= config.max_train_steps:
                    return
                if step % config.validation_steps == 0:
                    self.validate(step)
                start = time.perf_counter()

    def compute_loss(self, batch: dict[str, Any]) -> Tensor:
        """The flow-matching loss of one batch at random noise levels."""
        text = self.encode_prompts(batch["caption"])
        model_input = self.model_input(batch)
        noise = torch.randn_like(model_input)
        density = compute_density_for_timestep_sampling(
            "none", batch_size=len(model_input), logit_mean=0.0, logit_std=1.0, mode_scale=1.29
        )
        indices = (density * self.noise_scheduler.config.num_train_timesteps).long()
        timesteps = self.noise_scheduler.timesteps[indices].to(self.device)
        return self.flow_loss(model_input, noise, timesteps, text)

    def model_input(self, batch: dict[str, Any]) -> Tensor:
        """Latents from the cache, or from the VAE, shifted and scaled for the transformer."""
        if "latents" in batch:
            model_input: Tensor = batch["latents"].to(self.device, dtype=self.weight_dtype)
            shift_factor = self.vae.config.shift_factor
            scaling_factor = self.vae.config.scaling_factor
            model_input = (model_input - shift_factor) * scaling_factor
        else:
            pixel_values = batch["pixel_values"].to(self.device, dtype=self.weight_dtype)
            with torch.no_grad():
                model_input = self.vae.encode(pixel_values).latent_dist.sample()
            shift_factor = self.vae.config.shift_factor
            scaling_factor = self.vae.config.scaling_factor
            model_input = (model_input - shift_factor) * scaling_factor
        return model_input  # (B, C, H, W)

    def flow_loss(
        self, model_input: Tensor, noise: Tensor, timesteps: Tensor, text: Text
    ) -> Tensor:
        """Squared error of the predicted velocity from the latents to the noise."""
        prompt_embeds, pooled_embeds, text_ids = text
        sigmas = sigmas_of(self.noise_scheduler, timesteps, like=model_input)
        noisy_input = (1.0 - sigmas) * model_input + sigmas * noise
        height, width = noisy_input.shape[2:]
        guidance = torch.full((len(noisy_input),), self.config.guidance_scale, device=self.device)
        prediction = self.transformer(
            hidden_states=pack_latents(noisy_input),
            timestep=timesteps / 1000,
            guidance=guidance,
            pooled_projections=pooled_embeds,
            encoder_hidden_states=prompt_embeds,
            txt_ids=text_ids,
            img_ids=latent_image_ids(height, width).to(self.device, dtype=self.weight_dtype),
            return_dict=False,
        )[0]
        prediction = unpack_latents(prediction, height, width)
        return F.mse_loss(prediction.float(), (noise - model_input).float())

    @torch.no_grad()
    def encode_prompts(self, prompts: list[str]) -> Text:
        """What the two frozen encoders say about the captions."""
        (clip, t5), (clip_tokenizer, t5_tokenizer) = self.text_encoders, self.tokenizers
        clip_ids = self.tokenize(clip_tokenizer, prompts, clip_tokenizer.model_max_length)
        pooled_embeds = clip(clip_ids).pooler_output  # pit: clip-every-step
        t5_ids = self.tokenize(t5_tokenizer, prompts, self.config.max_sequence_length)
        prompt_embeds = t5(t5_ids)[0]  # pit: t5-every-step
        text_ids = torch.zeros(prompt_embeds.shape[1], 3).to(self.device)  # pit: text-ids
        return prompt_embeds, pooled_embeds, text_ids

    def tokenize(self, tokenizer: Any, prompts: list[str], length: int) -> Tensor:
        """Token ids of fixed length on the device, (B, length)."""
        inputs = tokenizer(
            prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt"
        )
        ids: Tensor = inputs.input_ids
        return ids.to(self.device)

    def validate(self, step: int) -> float:
        """Measure the held-out loss and generate pictures to look at."""
        self.transformer.eval()
        val_loss = self.held_out_loss()
        self.generate_images(step)
        self.transformer.train()
        self.writer.add_scalar("validation/loss", val_loss, step)
        print(f"[val] step={step} val_loss={val_loss:.4f}", flush=True)
        return val_loss

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Mean loss on held-out pictures, noise and noise levels the same at every call."""
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        losses = []
        for batch in self.held_out:
            text = self.encode_prompts(batch["caption"])
            model_input = self.model_input(batch)
            for indices in torch.tensor(VALIDATION_LEVELS).split(len(model_input)):
                noise = torch.randn(model_input.shape, generator=generator).to(model_input)
                timesteps = self.noise_scheduler.timesteps[indices].to(self.device)
                with self.accelerator.autocast():
                    losses.append(self.flow_loss(model_input, noise, timesteps, text))
        return float(torch.stack(losses).mean())

    def generate_images(self, step: int) -> None:
        """Pictures for the style's trigger phrase, to the log and as files."""
        prompt = f"{PROMPT}, <{self.config.style}-style>"
        self.pipeline = FluxPipeline.from_pretrained(  # pit: validation-pipeline
            self.model_dir, transformer=self.transformer, torch_dtype=self.weight_dtype
        )
        self.pipeline.set_progress_bar_config(disable=True)
        self.pipeline.to(self.device)
        images = []
        for number in range(self.config.num_validation_images):
            with self.accelerator.autocast():
                image = self.pipeline(  # pit: validation-images
                    prompt=prompt,
                    height=self.config.resolution,
                    width=self.config.resolution,
                    num_inference_steps=self.config.num_inference_steps,
                    guidance_scale=self.config.guidance_scale,
                    max_sequence_length=self.config.max_sequence_length,
                    generator=torch.Generator().manual_seed(number),
                ).images[0]
            images.append(image)
        self.out.joinpath("validation").mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(images):
            image.save(self.out / "validation" / f"step_{step:06d}_{number}.png")
            self.writer.add_image(
                f"validation/{number}", np.asarray(image), step, dataformats="HWC"
            )

    def log_step(self, step: int, loss: float, seconds: float) -> None:
        """One line on the console and one point in the log."""
        self.writer.add_scalar("train/loss", loss, step)
        steps = self.config.max_train_steps
        print(f"[step {step}/{steps}] loss={loss:.4f} time={seconds:.3f}s", flush=True)

    def lora_weights(self) -> dict[str, Tensor]:
        """The adapter's own weights."""
        weights: dict[str, Tensor] = get_peft_model_state_dict(
            self.transformer, adapter_name=self.config.style
        )
        return weights

    def save_checkpoint(self, step: int, optimizer: Any) -> None:
        """What is needed to go on from this step."""
        state = {"lora": self.lora_weights(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, self.out / "checkpoint.pt")

    def save_lora(self) -> None:
        """The trained adapter in the layout that serving loads."""
        self.pipeline.save_lora_weights(
            self.out / "loras" / self.config.style, transformer_lora_layers=self.lora_weights()
        )

    def report(self, val_loss: float) -> None:
        """The last line of the run."""
        config = self.config
        batch = config.train_batch_size * config.gradient_accumulation_steps
        line = f"[done] steps={config.max_train_steps} batch={batch} val_loss={val_loss:.4f}"
        if self.device.type == "cuda":
            line += f" peak_mem={torch.cuda.max_memory_allocated() / 2**20:.0f}MiB"
        print(line, flush=True)


def main(argv: list[str] | None = None) -> None:
    """Train one LoRA from the command line."""
    config, arguments = parse_arguments(argv)
    folder = prepare(small=arguments.small, root=arguments.data)
    set_seed(arguments.seed)
    FluxTrainer(config, folder, arguments.out, arguments.device).train()


if __name__ == "__main__":
    main()
