"""Stages: the steps of a way through a VAE, cut as finely as memory can make use of."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Run = Callable[[torch.Tensor], torch.Tensor]
REACH = 2  # pixels: as far as two convolutions look, or one that halves the picture


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a way through a VAE; ``zoom`` is its result's pixels per latent cell."""

    run: Run
    zoom: int
    modules: tuple[nn.Module, ...]  # whose norms it runs
    time_zoom: int = 1  # its result's frames per latent frame
    workspace_bytes: int = 0  # at most, beyond what grows with the picture
    halo: int | None = None  # cells around a strip that make it exact; None: it looks everywhere
    waits: bool = False  # its result is larger than the next one's: the next may follow at once


def chain(*runs: Run) -> Run:
    """All of them, one after the other."""

    def run(x: torch.Tensor) -> torch.Tensor:
        for each in runs:
            x = each(x)
        return x

    return run


def halo_of(*zooms: int) -> int:
    """Cells around a strip for a block between these pixels per cell."""
    return -(-REACH // max(zooms))


def joined(stages: tuple[Stage, ...]) -> Stage:
    """Stages that run in strips together, as one."""
    last = stages[-1]
    return Stage(
        chain(*(stage.run for stage in stages)),
        last.zoom,
        tuple(module for stage in stages for module in stage.modules),
        last.time_zoom,
        halo=sum(stage.halo or 0 for stage in stages),
    )
