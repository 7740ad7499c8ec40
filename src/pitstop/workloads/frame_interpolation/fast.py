"""Train the frame-interpolation autoencoder, after its pit stop."""

import os
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.optim import Adam
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from .config import FOLDER, Config, DataConfig, load_config
from .data import FILES, FULL, SMALL, Vimeo90kTriplet, build_triplets, flip
from .faster import faster, is_adversarial
from .loss import Logs
from .model import Batch, VQFlowNet
from .slow import Loader, endless, parse_arguments, seed_everything, toggle, validate

Optimizers = tuple[Adam, Adam]

BF16 = True  # products and convolutions on a GPU
FUSED = True  # one kernel for all parameters of an optimizer


class ByteTriplets(Vimeo90kTriplet):
    """Hands out pixels as the bytes that they are: a quarter of the floats to collate and copy."""

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        images = self.crop([Image.open(self.paths[index] / file).convert("RGB") for file in FILES])
        if self.train:
            images = flip(images)
            images = images[::-1] if random.random() < 0.5 else images
        names = ("prev_frame", "image", "next_frame")
        return {name: np.array(image) for name, image in zip(names, images, strict=True)}


def make_loaders(folder: Path, config: DataConfig) -> tuple[Loader, Loader]:
    """Training and validation batches, by workers that stay."""
    workers = min(config.num_workers or 2, len(os.sched_getaffinity(0)))

    def loader(triplets: Vimeo90kTriplet) -> Loader:
        return DataLoader(
            triplets,
            batch_size=config.batch_size,
            num_workers=workers,
            shuffle=triplets.train,
            drop_last=triplets.train,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=True,
        )

    return loader(ByteTriplets(folder, True, config.crop_size)), loader(
        Vimeo90kTriplet(folder, False, config.crop_size)
    )


def to_device(batch: Batch, model: VQFlowNet) -> Batch:
    """The batch where the model is, as floats in -1 to 1, while the GPU works on."""
    device = next(model.parameters()).device
    moved = {name: frames.to(device, non_blocking=True) for name, frames in batch.items()}
    return {name: frames.float() / 127.5 - 1.0 for name, frames in moved.items()}


def train_step(
    model: VQFlowNet, optimizers: Optimizers, batch: Batch, step: int
) -> dict[str, float]:
    """One update by each optimizer whose loss counts; what is logged is fetched in one go."""
    logs: Logs = {}
    for index, optimizer in enumerate(optimizers[: 2 if is_adversarial(model.loss, step) else 1]):
        toggle(optimizers, index)
        with torch.autocast("cuda", torch.bfloat16, enabled=BF16 and batch["image"].is_cuda):
            loss, values = model.training_step(batch, index, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logs |= {name: value.detach().float() for name, value in values.items()}
    return dict(zip(logs, torch.stack(list(logs.values())).tolist(), strict=True))


def configure_optimizers(model: VQFlowNet, rate: float) -> Optimizers:
    """One optimizer for the autoencoder, one for the discriminator, each a single kernel."""
    discriminator = list(model.loss.discriminator.parameters())
    rest = [each for name, each in model.named_parameters() if not name.startswith("loss.")]
    first, second = (
        Adam(each, lr=rate, betas=(0.5, 0.9), fused=FUSED) for each in (rest, discriminator)
    )
    return first, second


def main(argv: list[str] | None = None) -> None:
    """Train from the command line."""
    arguments = parse_arguments(argv)
    default = FOLDER / ("small.yaml" if arguments.small else "full.yaml")
    config = load_config(arguments.config or default)
    seed_everything(arguments.seed)
    torch.backends.cudnn.benchmark = config.trainer.benchmark
    folder = build_triplets(SMALL if arguments.small else FULL, arguments.data)
    train, validation = make_loaders(folder, config.data)
    model = VQFlowNet(config.model).to(arguments.device)
    faster(model)
    steps = arguments.steps or config.trainer.max_steps
    psnr = fit(model, train, validation, config, steps, arguments.out)
    report = f"[done] steps={steps} batch={config.data.batch_size} psnr={psnr:.2f}"
    if arguments.device == "cuda":
        report += f" peak_mem={torch.cuda.max_memory_allocated() >> 20}MiB"
    print(report)


def fit(
    model: VQFlowNet, train: Loader, validation: Loader, config: Config, steps: int, out: Path
) -> float:
    """Train, validate now and then, log and save; the last validation's PSNR."""
    optimizers = configure_optimizers(
        model, config.data.batch_size * config.model.base_learning_rate
    )
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


if __name__ == "__main__":
    main()
