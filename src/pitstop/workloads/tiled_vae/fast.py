"""Reconstruct video clips through the tiled VAE, or train it, after its pit stop."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from pitstop.parts import TiledVae, Tiling, accelerate_vae

from .data import ClipWindows, RandomCrops, clips_at_least, clips_folder
from .model import VideoVae
from .options import Options, parse
from .quality import psnr, seam
from .slow import (
    KL_WEIGHT,
    build_vae,
    configure_backends,
    endless,
    kl_divergence,
    print_done,
    validate,
)
from .tiling import Tiling as SlowTiling

MOST_WORKERS = 4  # beside the threads that write pictures
FUSED = True  # one kernel for all parameters of the optimizer


def main(argv: list[str] | None = None) -> None:
    """Run the mode that the command line asks for."""
    options = parse(str(__doc__), argv)
    configure_backends()
    torch.manual_seed(options.seed)
    folder = clips_folder(options.small, options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    vae = build_vae(options)
    name = str(clips_at_least(options.small, options.height, options.width))
    clips = ClipWindows(folder / name, options.frames, options.height, options.width)
    with SummaryWriter(str(options.out / "logs")) as writer:
        if options.train:
            train(vae, folder / "train", clips, options, writer)
        else:
            reconstruct(vae, clips, options, writer)


def reconstruct(vae: VideoVae, clips: ClipWindows, options: Options, writer: SummaryWriter) -> None:
    """Encode and decode one clip per step; what comes back is saved while the next one runs."""
    vae.eval()
    code, loader = coder(vae, options), DataLoader(clips, batch_size=1, **ahead())
    tiling = SlowTiling(options.tile, options.overlap)  # where seams would be
    scores, seams, pending = [], [], list[Future[None]]()
    with ThreadPoolExecutor(cores()) as pool:
        started = time.perf_counter()
        for step, (frames, name) in enumerate(endless(loader, options.steps), 1):
            clip = frames.to(options.device, non_blocking=True)
            decoded = code(clip)
            scores.append(psnr(decoded, clip))
            seams.append(seam(decoded, clip, tiling))
            writer.add_scalar("clip/psnr", scores[-1], step)
            writer.add_scalar("clip/seam", seams[-1], step)
            finished(pending)  # at most one clip waits to be written
            pending = write_frames(decoded[0], options.out / "frames" / name[0], pool)
            seconds, started = time.perf_counter() - started, time.perf_counter()
            quality = f"psnr={scores[-1]:.3f} seam={seams[-1]:.3f}"
            print(f"[step {step}/{options.steps}] {quality} time={seconds:.3f}s", flush=True)
        finished(pending)
    quality = f"psnr={fmean(scores):.3f} seam={fmean(seams):.3f}"
    print(f"[val] step={options.steps} {quality}")
    print_done(options, 1, quality)


def coder(vae: VideoVae, options: Options) -> Callable[[Tensor], Tensor]:
    """What becomes of a clip: coded at once where that fits, else in tiles that do not show."""
    if options.device == "cuda":
        accelerate_vae(vae)
    tiled = TiledVae(vae, Tiling(overlap=options.overlap, quiet=True))
    dtype = next(vae.parameters()).dtype
    return lambda clip: tiled.decode(tiled.encode(clip.to(dtype)))


def ahead() -> dict[str, Any]:
    """What lets a loader read ahead, in processes that stay."""
    count = min(MOST_WORKERS, cores())
    pinned = torch.cuda.is_available()
    return {"num_workers": count, "pin_memory": pinned, "persistent_workers": True}


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def write_frames(clip: Tensor, folder: Path, pool: ThreadPoolExecutor) -> list[Future[None]]:
    """Save (3, T, H, W) in -1 to 1 as numbered pictures, each by a thread."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = ((clip.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 3, 0)

    def write(index: int, frame: np.ndarray) -> None:
        Image.fromarray(frame).save(folder / f"{index:05d}.png", compress_level=1)

    return [pool.submit(write, *each) for each in enumerate(pixels.cpu().numpy())]


def finished(pending: list[Future[None]]) -> None:
    """Wait for pictures, and raise what went wrong with them."""
    for each in pending:
        each.result()


def train(
    vae: VideoVae, folder: Path, test_clips: ClipWindows, options: Options, writer: SummaryWriter
) -> None:
    """Teach the network to give back random crops, and save its weights."""
    crops = RandomCrops(folder, options.frames, options.crop)
    loader = DataLoader(crops, options.batch, shuffle=True, drop_last=True, **ahead())
    optimizer = torch.optim.Adam(vae.parameters(), lr=options.learning_rate, fused=FUSED)
    validate(vae, test_clips, options, writer, 0)
    started = time.perf_counter()
    for step, crop in enumerate(endless(loader, options.steps), 1):
        clip = crop.to(options.device, non_blocking=True)
        decoded, mean, log_variance = vae(clip)
        difference = F.l1_loss(decoded, clip)
        loss = difference + KL_WEIGHT * kl_divergence(mean, log_variance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        both = torch.stack([loss.detach(), difference.detach()]).tolist()
        writer.add_scalar("train/loss", both[0], step)
        writer.add_scalar("train/l1", both[1], step)
        seconds, started = time.perf_counter() - started, time.perf_counter()
        print(f"[step {step}/{options.steps}] loss={both[0]:.5f} time={seconds:.3f}s", flush=True)
    quality = validate(vae, test_clips, options, writer, options.steps)
    torch.save(vae.state_dict(), options.out / "vae.pt")
    print_done(options, options.batch, quality)


if __name__ == "__main__":
    main()
