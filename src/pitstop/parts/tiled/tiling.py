"""How to tile: what the user may ask for."""

from dataclasses import dataclass

from pitstop.core.errors import PitstopError


@dataclass(frozen=True, slots=True)
class Tiling:
    """How to tile; lengths are pixels, and what is not given is measured."""

    budget_bytes: int | None = None  # most memory in use at once, weights and all
    share: float | None = None  # or: of what the picture would take at once
    tile: int | None = None  # longest edge of a tile
    overlap: int | None = None
    batch: int | None = None  # tiles at a time
    middle: bool = True  # what fits runs over the whole picture, at once or in strips
    sample: float | None = None  # work for shared statistics, in pictures; 0: each tile its own
    frames: int = 1  # latent frames of a temporal chunk, for a VAE that remembers
    offload: bool = False  # gather the result on the CPU
    offload_weights: bool = False  # keep weights on the CPU between calls
    quiet: bool = False  # no lines on stderr


def check_tiling(tiling: Tiling, scale: int) -> None:
    """Raise one error that names what cannot be, for a VAE of ``scale`` pixels per cell."""
    if tiling.frames < 1 or (tiling.batch is not None and tiling.batch < 1):
        raise PitstopError(
            f"frames is {tiling.frames}, batch {tiling.batch}: pass at least 1 of each"
        )
    if tiling.share is not None and not 0 < tiling.share <= 1:
        raise PitstopError(f"share is {tiling.share}: pass more than 0 and at most 1")
    if tiling.sample is not None and tiling.sample < 0:
        raise PitstopError(f"sample is {tiling.sample}: pass 0 or more")
    if tiling.overlap is not None and tiling.overlap < 0:
        raise PitstopError(f"overlap is {tiling.overlap}: pass 0 or more pixels")
    if tiling.tile is not None and tiling.tile <= max(tiling.overlap or 0, scale - 1):
        raise PitstopError(
            f"tile is {tiling.tile}: pass more than its overlap, and at least {scale} pixels"
        )
