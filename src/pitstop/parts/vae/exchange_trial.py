"""Trial of an exchange: what it gains on the device that it runs on, and undone where it does not.

A block that is fast in one network is slow in another: layouts meet, and what was fused there is a
copy more here. What is fast in a large picture is slow in a small one, where launches count. So
each exchange is timed in the whole network, once for each class of block, in a small picture and in
a large one: it is kept where one of them gains and none of them loses.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from pitstop.parts.group_norm.fuse_group_norm import Exchanged, Undo

Run = Callable[[], object]
Clock = Callable[[Run], float]  # milliseconds of one run
REPEATS = 5  # runs after one warm-up; the fastest counts, since noise only adds
WORTH = 1.02  # times as fast: less is within what two timings of one thing differ by
ENOUGH_MS = 1000.0  # of runs: long ones differ by less, and a clip may take seconds
SIDES = (256, 1024)  # height and width of the pictures that are tried: most are between them
CELLS = 8  # height and width of the first latent: it tells how much larger its picture is
FRAMES = 2  # latent frames of a clip: the first one is often treated in its own way
CONVOLUTIONS = (nn.Conv2d, nn.Conv3d)


class Trial:
    """Exchanges, one after the other; ``done`` undoes those that were kept."""

    def __init__(self, runs: Mapping[str, Run], clock: Clock) -> None:
        self._runs = runs  # by the name of their shape
        self._clock = clock
        self._before_ms = {shape: clock(run) for shape, run in runs.items()}
        self._steps: list[Undo] = []
        self._record: list[Exchanged] = []

    def attempt(self, name: str, exchange: Callable[[], Undo]) -> None:
        """Keep it if it makes the runs faster, or if nothing can be run."""
        undo = exchange()
        if not undo.steps:
            return
        if not self._runs:
            self._record.append(Exchanged(name))
            self._steps.append(undo)
            return
        now_ms: dict[str, float] = {}
        with suppress(Exception):  # it cannot be run so: whatever is missing below
            for shape, run in self._runs.items():
                now_ms[shape] = self._clock(run)
        kept = self._gains(now_ms)
        for shape, before_ms in self._before_ms.items():
            named = f"{name}, {shape}" if shape else name
            self._record.append(Exchanged(named, before_ms, now_ms.get(shape), kept))
        if kept:
            self._before_ms = now_ms
            self._steps.append(undo)
        else:
            undo()

    def _gains(self, now_ms: Mapping[str, float]) -> bool:
        """Whether one shape gains and none of them loses."""
        if len(now_ms) < len(self._runs):
            return False
        gains = [before / now_ms[shape] for shape, before in self._before_ms.items()]
        return max(gains) >= WORTH and min(gains) * WORTH >= 1

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
    times_ms: list[float] = []
    while len(times_ms) < REPEATS and sum(times_ms) < ENOUGH_MS:
        times_ms.append(once())
    return min(times_ms)


def decodings(vae: Any, sides: tuple[int, ...] = SIDES) -> dict[str, Run]:
    """Runs of a VAE that decodes random numbers, by the size of what they are decoded to.

    None where it cannot be guessed; a picture that does not fit into memory is left out.
    """
    smallest = _decoding(vae, CELLS)
    larger = _larger(smallest) if smallest else None
    if smallest is None or larger is None:
        return {}
    cells = dict.fromkeys(max(1, round(side / larger)) for side in sides)
    runs = {each: _decoding(vae, each) for each in cells}
    found = {_by(each * larger): run for each, run in runs.items() if run}
    return found or {_by(CELLS * larger): smallest}


def _by(side: float) -> str:
    return f"{side:.0f} x {side:.0f}"


def _larger(run: Run) -> float | None:
    """How much wider a picture is than its latent."""
    made: Any = run()
    made = getattr(made, "sample", made)
    if isinstance(made, tuple | list) and made:
        made = made[0]
    fits = isinstance(made, torch.Tensor) and made.dim() >= 4 and made.shape[-1] >= 1
    return made.shape[-1] / CELLS if fits else None


def _decoding(vae: Any, cells: int) -> Run | None:
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
