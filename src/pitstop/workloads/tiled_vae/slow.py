"""Reconstruct video clips through the tiled VAE, or train it with --train."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from .data import ClipWindows, RandomCrops, clips_at_least, clips_folder, write_frames
from .model import VideoVae
from .options import Options, parse
from .quality import psnr, seam
from .tiling import Tiling, tiled_decode, tiled_encode

KL_WEIGHT = 1e-6
VALIDATION_CLIPS = 4


def main(argv: list[str] | None = None) -> None:
    """Run the mode that the command line asks for."""
    options = parse(str(__doc__), argv)
    configure_backends()
    torch.manual_seed(options.seed)
    folder = clips_folder(options.small, options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    vae = build_vae(options)
    test_clips = ClipWindows(
        folder / str(clips_at_least(options.small, options.height, options.width)),
        options.frames,
        options.height,
        options.width,
    )
    with SummaryWriter(str(options.out / "logs")) as writer:
        if options.train:
            train(vae, folder / "train", test_clips, options, writer)
        else:
            reconstruct(vae, test_clips, options, writer)


def configure_backends() -> None:
    """Let cuDNN search for its fastest algorithms, and allow TF32."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def build_vae(options: Options) -> VideoVae:
    """The network on its device: bfloat16 for inference on a GPU, float32 otherwise."""
    vae = VideoVae(options.vae)
    if options.checkpoint:
        vae.load_state_dict(torch.load(options.checkpoint, map_location="cpu", weights_only=True))
    in_half = options.device == "cuda" and not options.train
    return vae.to(options.device, torch.bfloat16 if in_half else torch.float32)


def reconstruct(vae: VideoVae, clips: ClipWindows, options: Options, writer: SummaryWriter) -> None:
    """Encode and decode one clip per step, and save what comes back."""
    vae.eval()
    tiling = Tiling(options.tile, options.overlap, options.offload_device)
    loader = DataLoader(clips, batch_size=1)  # pit: clip-loader
    scores, seams = [], []
    started = time.perf_counter()
    for step, (frames, name) in enumerate(endless(loader, options.steps), 1):
        clip = frames.to(options.device)  # pit: clip-copy
        decoded = run_tiled(vae, clip, tiling)
        scores.append(psnr(decoded, clip))
        seams.append(seam(decoded, clip, tiling))
        writer.add_scalar("clip/psnr", scores[-1], step)
        writer.add_scalar("clip/seam", seams[-1], step)
        write_frames(decoded[0], options.out / "frames" / name[0])
        seconds, started = time.perf_counter() - started, time.perf_counter()
        quality = f"psnr={scores[-1]:.3f} seam={seams[-1]:.3f}"
        print(f"[step {step}/{options.steps}] {quality} time={seconds:.3f}s", flush=True)
    quality = f"psnr={fmean(scores):.3f} seam={fmean(seams):.3f}"
    print(f"[val] step={options.steps} {quality}")
    print_done(options, 1, quality)


def train(
    vae: VideoVae, folder: Path, test_clips: ClipWindows, options: Options, writer: SummaryWriter
) -> None:
    """Teach the network to give back random crops, and save its weights."""
    crops = RandomCrops(folder, options.frames, options.crop)
    loader = DataLoader(crops, options.batch, shuffle=True, drop_last=True)  # pit: crop-loader
    optimizer = torch.optim.Adam(vae.parameters(), lr=options.learning_rate)  # pit: adam
    validate(vae, test_clips, options, writer, 0)
    started = time.perf_counter()
    for step, crop in enumerate(endless(loader, options.steps), 1):
        clip = crop.to(options.device)
        decoded, mean, log_variance = vae(clip)
        difference = F.l1_loss(decoded, clip)
        loss = difference + KL_WEIGHT * kl_divergence(mean, log_variance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("train/loss", loss.item(), step)  # pit: item
        writer.add_scalar("train/l1", difference.item(), step)
        seconds, started = time.perf_counter() - started, time.perf_counter()
        print(f"[step {step}/{options.steps}] loss={loss:.5f} time={seconds:.3f}s", flush=True)
    quality = validate(vae, test_clips, options, writer, options.steps)
    torch.save(vae.state_dict(), options.out / "vae.pt")
    print_done(options, options.batch, quality)


def validate(
    vae: VideoVae, clips: ClipWindows, options: Options, writer: SummaryWriter, step: int
) -> str:
    """Print and log the mean quality over a few test clips, tiled as in inference."""
    vae.eval()
    tiling = Tiling(options.tile, options.overlap, options.offload_device)
    scores, seams = [], []
    for index in range(0, len(clips), -(-len(clips) // VALIDATION_CLIPS)):
        clip = clips[index][0][None].to(options.device)
        decoded = run_tiled(vae, clip, tiling)
        scores.append(psnr(decoded, clip))
        seams.append(seam(decoded, clip, tiling))
    vae.train()
    writer.add_scalar("val/psnr", fmean(scores), step)
    writer.add_scalar("val/seam", fmean(seams), step)
    quality = f"psnr={fmean(scores):.3f} seam={fmean(seams):.3f}"
    print(f"[val] step={step} {quality}", flush=True)
    return quality


@torch.no_grad()
def run_tiled(vae: VideoVae, clip: Tensor, tiling: Tiling) -> Tensor:
    """``clip`` (B, 3, T, H, W) through encoder and decoder, in the network's precision."""
    dtype = next(vae.parameters()).dtype
    latent = tiled_encode(vae, clip.to(dtype), tiling)
    return tiled_decode(vae, latent, tiling)


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Divergence of the posterior from a standard normal, summed over one sample."""
    terms = mean.square() + log_variance.exp() - 1 - log_variance
    return 0.5 * terms.sum() / mean.shape[0]


def endless(loader: DataLoader[Any], steps: int) -> Iterator[Any]:
    """``steps`` batches, starting over as often as it takes."""
    while steps > 0:
        for batch in loader:
            yield batch
            steps -= 1
            if steps == 0:
                return


def print_done(options: Options, batch: int, quality: str) -> None:
    """The last line, with peak memory where there is a GPU to have one."""
    memory = ""
    if options.device == "cuda":
        memory = f" peak_mem={torch.cuda.max_memory_allocated() / 2**20:.0f}MiB"
    print(f"[done] steps={options.steps} batch={batch} {quality}{memory}")


if __name__ == "__main__":
    main()
