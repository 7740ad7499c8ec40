"""Train the spike deblurring network: ``python -m pitstop.workloads.spike_deblur.slow --small``."""

import argparse
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from .data import SpikeDeblurDataset, prepare
from .losses import PerceptualLoss, charbonnier
from .model import SpikeVRT
from .settings import Settings, load_settings

HERE = Path(__file__).parent
Batch = tuple[Tensor, Tensor]  # blurred RGB with voxels, sharp RGB


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line; what it leaves open, the YAML file decides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, help="YAML file; default by size")
    parser.add_argument("--small", action="store_true", help="a size for the CPU")
    parser.add_argument("--steps", type=int, help="optimizer steps")
    parser.add_argument("--accumulate", type=int, help="micro-batches per optimizer step")
    parser.add_argument("--workers", type=int, help="loader processes")
    parser.add_argument("--data", type=Path, help="folder that holds the dataset")
    parser.add_argument("--out", type=Path, default=Path("runs/spike_deblur"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    arguments = parser.parse_args(argv)
    for name, least in (("steps", 1), ("accumulate", 1), ("workers", 0)):
        given = getattr(arguments, name)
        if given is not None and given < least:
            parser.error(f"--{name} must be at least {least}, not {given}")
    if arguments.config is not None and not arguments.config.is_file():
        parser.error(f"--config {arguments.config} is not a file")
    return arguments


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The YAML file with the command line's values on top."""
    default = "gopro_spike_small.yaml" if arguments.small else "gopro_spike.yaml"
    settings = load_settings(arguments.config or HERE / default)
    names = {"steps": "steps", "accumulate": "accumulation_steps", "workers": "num_workers"}
    given = {field: getattr(arguments, flag) for flag, field in names.items()}
    given = {field: value for field, value in given.items() if value is not None}
    return replace(settings, train=replace(settings.train, **given))


def train_loader(settings: Settings, root: Path, device: torch.device) -> DataLoader[Batch]:
    """Shuffled training clips, from RAM where they fit."""
    train, data = settings.train, settings.data
    clips = SpikeDeblurDataset(
        root,
        data.train_split,
        data.clip_len,
        settings.model.voxel_bins,
        data.crop_size,
        train.use_precomputed_voxels,
        train.ram_cache_gb if train.use_ram_cache else 0,
    )
    return DataLoader(  # pit: train-loader
        clips,
        batch_size=train.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=train.num_workers,
        pin_memory=device.type == "cuda",
        multiprocessing_context="spawn" if train.num_workers else None,
    )


def val_loader(settings: Settings, root: Path) -> DataLoader[Batch]:
    """Whole frames of the held-out clips, in order."""
    data = settings.data
    clips = SpikeDeblurDataset(root, data.val_split, data.clip_len, settings.model.voxel_bins)
    return DataLoader(clips, batch_size=1)  # pit: val-loader


def build_model(settings: Settings, device: torch.device) -> nn.Module:
    """The network on its device, with the optimizations that the configuration asks for."""
    model: nn.Module = SpikeVRT(settings.model).to(device)
    if settings.train.channels_last:
        channels_last_count = 0
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # noqa: PLW2901  # pit: layout-loop
                channels_last_count += 1
        print(f"[model] channels_last: {channels_last_count} Conv2d layers")
    if settings.train.compile_model:
        try:
            model = torch.compile(model)  # type: ignore[assignment]  # pit: compile-in-try
            print("[model] compiled")
        except Exception as error:  # noqa: BLE001
            print(f"[model] torch.compile failed, running eager: {error}")
    return model


def print_memory_estimate(model: nn.Module) -> None:
    """Say how much GPU memory training is going to take."""
    model_params = sum(p.numel() * p.element_size() for p in model.parameters())
    model_size_gb = model_params / (1024**3)
    optimizer_size_gb = model_size_gb * 2  # params + gradients
    activation_size_gb = 10  # rough estimate for activations  # pit: memory-guess
    total_gb = model_size_gb + optimizer_size_gb + activation_size_gb
    count = sum(p.numel() for p in model.parameters())
    print(f"[model] {count / 1e6:.2f} M parameters, about {total_gb:.1f} GB of GPU memory")


class Trainer:
    """The training loop and what it holds."""

    def __init__(self, settings: Settings, device: torch.device, out: Path) -> None:
        train = settings.train
        self.settings, self.device, self.out = settings, device, out
        self.model = build_model(settings, device)
        print_memory_estimate(self.model)
        loss = settings.loss
        self.perceptual = PerceptualLoss(loss.vgg_width, loss.vgg_resolutions).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=train.lr)  # pit: optimizer
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            self.optimizer, T_0=train.steps, eta_min=1e-7
        )
        self.amp = train.mixed_precision and device.type == "cuda"
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.amp)
        self.writer = SummaryWriter(str(out / "tensorboard"))

    def fit(self, loader: DataLoader[Batch], held_out: DataLoader[Batch]) -> None:
        """Run the configured number of optimizer steps, epoch after epoch."""
        train = self.settings.train
        steps, accumulation = train.steps, train.accumulation_steps
        step, micro, loss_sum, started = 0, 0, 0.0, time.perf_counter()
        while step < steps:
            for batch in loader:
                loss_sum += self.micro_batch(batch) / accumulation
                micro += 1
                if micro % accumulation:
                    continue
                self.update()
                step += 1
                elapsed = time.perf_counter() - started
                self.log(step, loss_sum, elapsed)
                if step % train.val_interval == 0 and step < steps:
                    self.validate(held_out, step)
                    self.save(f"step_{step:06d}.pth")
                if step == steps:
                    break
                loss_sum, started = 0.0, time.perf_counter()

    def micro_batch(self, batch: Batch) -> float:
        """Forward and backward of one small batch; gradients add up until ``update``."""
        clip, sharp = (tensor.to(self.device) for tensor in batch)  # pit: copy-blocks
        with torch.autocast(self.device.type, torch.float16, enabled=self.amp):
            loss = self.loss(self.model(clip), sharp)
        if torch.isnan(loss) or torch.isinf(loss):  # pit: nan-check
            print("NaN/Inf detected in loss!")
            for name, param in self.model.named_parameters():
                if torch.isnan(param).any() or torch.isinf(param).any():
                    print(f" -> NaN/Inf in parameter: {name}")
            raise SystemExit(1)
        self.scaler.scale(loss / self.settings.train.accumulation_steps).backward()
        self.scheduler.step()  # pit: scheduler-per-micro-batch
        return loss.item()  # pit: loss-item

    def loss(self, restored: Tensor, sharp: Tensor) -> Tensor:
        """Charbonnier plus the weighted perceptual distance."""
        restored = torch.clamp(restored, 0, 1)  # pit: clamp-before-loss
        sharp = torch.clamp(sharp, 0, 1)
        loss = self.settings.loss
        pixels = charbonnier(restored, sharp, loss.charbonnier_delta)
        features: Tensor = self.perceptual(restored, sharp)
        return pixels + loss.vgg_weight * features

    def update(self) -> None:
        """One optimizer step on the accumulated gradients, clipped."""
        self.scaler.unscale_(self.optimizer)
        limit = self.settings.train.max_grad_norm
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def log(self, step: int, loss: float, elapsed: float) -> None:
        """One line on the terminal and two points in TensorBoard."""
        lr = self.optimizer.param_groups[0]["lr"]
        steps = self.settings.train.steps
        print(f"[step {step}/{steps}] loss={loss:.4f} lr={lr:.2e} time={elapsed:.3f}s", flush=True)
        self.writer.add_scalar("train/loss", loss, step)
        self.writer.add_scalar("train/lr", lr, step)

    def validate(self, held_out: DataLoader[Batch], step: int) -> float:
        """Mean PSNR of the restored frames, next to that of the blurred ones."""
        self.model.eval()
        restored_psnr, blurred_psnr = [], []
        with torch.no_grad():
            for clip, sharp in held_out:
                clip, sharp = clip.to(self.device), sharp.to(self.device)  # noqa: PLW2901
                with torch.autocast(self.device.type, torch.float16, enabled=self.amp):
                    restored = self.model(clip)
                restored_psnr.append(psnr(restored, sharp))
                blurred_psnr.append(psnr(clip[:, :, :3], sharp))
        self.model.train()
        result, blurred = float(np.mean(restored_psnr)), float(np.mean(blurred_psnr))
        print(f"[val] step={step} psnr={result:.2f} blurred={blurred:.2f}", flush=True)
        self.writer.add_scalar("val/psnr", result, step)
        return result

    def save(self, name: str) -> None:
        """Keep the weights."""
        torch.save(self.model.state_dict(), self.out / name)


def psnr(restored: Tensor, sharp: Tensor) -> float:
    """Peak signal-to-noise ratio in dB, the mean over the frames of a clip."""
    error = (restored.float().clamp(0, 1) - sharp).square().mean((-3, -2, -1))
    return float((-10 * error.log10()).mean())


def main(argv: list[str] | None = None) -> None:
    """Prepare the data, train, validate before and after, save."""
    arguments = parse_arguments(argv)
    settings = settings_of(arguments)
    random.seed(arguments.seed)
    np.random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    root = prepare(arguments.small, arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    held_out = val_loader(settings, root)
    loader = train_loader(settings, root, device)
    trainer = Trainer(settings, device, arguments.out)
    trainer.validate(held_out, 0)
    trainer.fit(loader, held_out)
    steps, train = settings.train.steps, settings.train
    quality = trainer.validate(held_out, steps)
    trainer.save("last.pth")
    trainer.writer.close()
    done = f"[done] steps={steps} batch={train.batch_size * train.accumulation_steps}"
    done += f" psnr={quality:.2f}"
    if device.type == "cuda":
        done += f" peak_mem={torch.cuda.max_memory_allocated() >> 20}MiB"
    print(done)


if __name__ == "__main__":
    main()
