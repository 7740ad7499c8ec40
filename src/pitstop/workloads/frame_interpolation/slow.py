"""Train the frame-interpolation autoencoder, as found."""

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from .config import FOLDER, Config, DataConfig, load_config
from .data import FULL, SMALL, Frame, Vimeo90kTriplet, build_triplets
from .model import Batch, VQFlowNet

Loader = DataLoader[dict[str, Frame]]


def main(argv: list[str] | None = None) -> None:
    """Train from the command line."""
    arguments = parse_arguments(argv)
    config = load_config(
        arguments.config or FOLDER / ("small.yaml" if arguments.small else "full.yaml")
    )
    seed_everything(arguments.seed)
    torch.backends.cudnn.benchmark = config.trainer.benchmark
    folder = build_triplets(SMALL if arguments.small else FULL, arguments.data)
    train, validation = make_loaders(folder, config.data)
    model = VQFlowNet(config.model).to(arguments.device)
    steps = arguments.steps or config.trainer.max_steps
    psnr = fit(model, train, validation, config, steps, arguments.out)
    report = f"[done] steps={steps} batch={config.data.batch_size} psnr={psnr:.2f}"
    if arguments.device == "cuda":
        report += f" peak_mem={torch.cuda.max_memory_allocated() >> 20}MiB"
    print(report)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="frame_interpolation", description=__doc__)
    parser.add_argument("--config", type=Path, help="YAML file instead of the bundled one")
    parser.add_argument("--small", action="store_true", help="the size for a CPU")
    parser.add_argument("--steps", type=positive, help="training steps, default as configured")
    parser.add_argument("--data", type=Path, help="where the generated triplets are kept")
    parser.add_argument("--out", type=Path, default=Path("runs/frame_interpolation"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"])
    arguments = parser.parse_args(argv)
    arguments.device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return arguments


def positive(text: str) -> int:
    """A whole number above zero."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def seed_everything(seed: int) -> None:
    """The same numbers each time."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_loaders(folder: Path, config: DataConfig) -> tuple[Loader, Loader]:
    """Training and validation batches."""
    train = DataLoader(  # pit: train-loader
        Vimeo90kTriplet(folder, train=True, crop_size=config.crop_size),
        batch_size=config.batch_size,
        num_workers=config.num_workers,
        shuffle=True,
        drop_last=True,
    )
    validation = DataLoader(  # pit: validation-loader
        Vimeo90kTriplet(folder, train=False, crop_size=config.crop_size),
        batch_size=config.batch_size,
        num_workers=config.num_workers,
    )
    return train, validation


def configure_optimizers(model: VQFlowNet, rate: float) -> tuple[Optimizer, Optimizer]:
    """One optimizer for the autoencoder, one for the discriminator."""
    autoencoder = [
        *model.encoder.parameters(),
        *model.decoder.parameters(),
        *model.quantize.parameters(),
        *model.quant_conv.parameters(),
        *model.post_quant_conv.parameters(),
    ]
    discriminator = model.loss.discriminator.parameters()
    optimizer_ae = Adam(autoencoder, lr=rate, betas=(0.5, 0.9))  # pit: adam-autoencoder
    optimizer_disc = Adam(discriminator, lr=rate, betas=(0.5, 0.9))  # pit: adam-discriminator
    return optimizer_ae, optimizer_disc


def fit(
    model: VQFlowNet, train: Loader, validation: Loader, config: Config, steps: int, out: Path
) -> float:
    """Train, validate now and then, log and save; the last validation's PSNR."""
    rate = config.data.batch_size * config.model.base_learning_rate
    optimizers = configure_optimizers(model, rate)
    writer = SummaryWriter(str(out))
    psnr = validate(model, validation, 0, writer)
    started = time.perf_counter()
    for step, batch in enumerate(endless(train, steps), start=1):
        logs = train_step(model, optimizers, to_device(batch, model), step)
        for name, value in logs.items():
            writer.add_scalar(f"train/{name}", value, step)
        elapsed = time.perf_counter() - started
        print(f"[step {step}/{steps}] loss={logs['total_loss']:.4f} time={elapsed:.3f}s")
        if step % config.trainer.val_check_interval == 0 or step == steps:
            psnr = validate(model, validation, step, writer)
            torch.save({"step": step, "state_dict": model.state_dict()}, out / "last.ckpt")
        started = time.perf_counter()
    writer.close()
    return psnr


def endless(loader: Loader, steps: int) -> Iterator[Batch]:
    """So many batches, epoch after epoch."""
    while True:
        for batch in loader:
            yield batch
            steps -= 1
            if steps == 0:
                return


def to_device(batch: Batch, model: VQFlowNet) -> Batch:
    """The batch where the model is."""
    device = next(model.parameters()).device
    return {key: frames.to(device) for key, frames in batch.items()}  # pit: batch-to-device


def train_step(
    model: VQFlowNet, optimizers: tuple[Optimizer, Optimizer], batch: Batch, step: int
) -> dict[str, float]:
    """One update by each optimizer."""
    logs: dict[str, float] = {}
    for index, optimizer in enumerate(optimizers):
        toggle(optimizers, index)
        loss, values = model.training_step(batch, index, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, value in values.items():
            logs[name] = value.item()  # pit: item-per-value
    return logs


def toggle(optimizers: tuple[Optimizer, Optimizer], chosen: int) -> None:
    """Only the chosen optimizer's parameters take part in the graph."""
    for index, optimizer in enumerate(optimizers):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.requires_grad_(index == chosen)


def validate(model: VQFlowNet, loader: Loader, step: int, writer: SummaryWriter) -> float:
    """Mean PSNR of the held-out triplets."""
    model.eval()
    errors = torch.cat([model.validation_step(to_device(batch, model)).cpu() for batch in loader])
    model.train()
    psnr = (-10 * errors.log10()).mean().item()
    writer.add_scalar("val/psnr", psnr, step)
    print(f"[val] step={step} psnr={psnr:.2f}")
    return psnr


if __name__ == "__main__":
    main()
