"""What slow.py does, in the shape of fast.py: only to run the edits one by one."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from torch import Tensor

from .data import write_frames
from .model import VideoVae
from .options import Options
from .slow import run_tiled
from .tiling import Tiling


def coder(vae: VideoVae, options: Options) -> Callable[[Tensor], Tensor]:
    """One tile after the other, gathered on the offload device."""
    tiling = Tiling(options.tile, options.overlap, options.offload_device)
    return lambda clip: run_tiled(vae, clip, tiling)


def write_now(clip: Tensor, folder: Path, _: ThreadPoolExecutor) -> list[Future[None]]:
    """All pictures are written before the next clip begins."""
    write_frames(clip, folder)
    return []
