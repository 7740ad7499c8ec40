"""Trial of an exchange: what it gains on the device that it runs on, and undone where it does not.

A block that is fast in one network is slow in another: layouts meet, and what was fused there is a
copy more here. So each exchange is timed in the whole network, once for each class of block.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pitstop.parts.fuse_group_norm import Exchanged, Undo

Run = Callable[[], object]
Clock = Callable[[Run], float]  # milliseconds of one run
REPEATS = 5  # runs after one warm-up; the fastest counts, since noise only adds
WORTH = 1.02  # times as fast: less is within what two timings of one thing differ by
CELLS = 64  # height and width of the latent that is tried: a picture of 512 x 512
FRAMES = 2  # latent frames of a clip: the first one is often treated in its own way
CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)


class Trial:
    """Exchanges, one after the other; ``done`` undoes those that were kept."""

    def __init__(self, run: Run | None, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._before_ms = None if run is None else clock(run)
        self._steps: list[Undo] = []
        self._record: list[Exchanged] = []

    def attempt(self, name: str, exchange: Callable[[], Undo]) -> None:
        """Keep it if it makes the run faster, or if nothing can be run."""
        undo = exchange()
        if not undo.steps:
            return
        if self._run is None or self._before_ms is None:
            self._record.append(Exchanged(name))
            self._steps.append(undo)
            return
        now_ms = self._clock(self._run)
        kept = self._before_ms >= WORTH * now_ms
        self._record.append(Exchanged(name, self._before_ms, now_ms, kept))
        if kept:
            self._before_ms = now_ms
            self._steps.append(undo)
        else:
            undo()

    @property
    def done(self) -> Undo:
        """What was kept, to be undone together, and the record of all."""
        return Undo(tuple(self._steps), tuple(self._record))


def fastest_ms(run: Run) -> float:
    """The fastest of a few runs."""

    def once() -> float:
        start = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    once()
    return min(once() for _ in range(REPEATS))


def decoding(vae: Any, cells: int = CELLS) -> Run | None:
    """A run of a VAE that decodes random numbers; None where it cannot be guessed."""
    weight = _first_weight(vae)
    if weight is None or not hasattr(vae, "decode"):
        return None
    config = getattr(vae, "config", None)
    channels = getattr(config, "latent_channels", None) or getattr(config, "z_dim", None)
    frames = [FRAMES] * (weight.dim() - 4)
    shape = (1, channels or weight.shape[1], *frames, cells, cells)
    generator = torch.Generator().manual_seed(0)
    latent = torch.randn(shape, generator=generator).to(weight.device, weight.dtype)

    def run() -> object:
        with torch.no_grad():
            return vae.decode(latent)

    try:
        run()
    except Exception:  # noqa: BLE001 a stranger's code, given what it may not be made for
        return None
    return run


def _first_weight(vae: Any) -> torch.Tensor | None:
    """Of the convolution that a latent meets first."""
    for name in ("post_quant_conv", "decoder"):
        part = getattr(vae, name, None)
        for each in part.modules() if isinstance(part, nn.Module) else ():
            if isinstance(each, CONVOLUTIONS):
                return each.weight
    return None
