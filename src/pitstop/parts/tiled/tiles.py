"""Where tiles lie: the fewest of one shape that cover a picture, each overlapping its neighbours.

All lengths are cells, the pixels of the latent. Tiles share one shape, so that compiled code and
cuDNN see one; the last is flush with the border and overlaps more instead of being smaller. Nothing
is ever padded or cropped, so no picture can come back shifted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pitstop.core.errors import PitstopError


@dataclass(frozen=True, slots=True)
class Axis:
    """One edge of the picture, cut into stretches of equal length."""

    length: int
    tile: int
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        """Tiles along this edge."""
        return len(self.starts)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Starts of every tile and the next."""
        return tuple(pairwise(self.starts))


@dataclass(frozen=True, slots=True)
class Grid:
    """Tiles over a picture: rows by columns."""

    rows: Axis
    columns: Axis

    @property
    def count(self) -> int:
        """All tiles."""
        return self.rows.count * self.columns.count

    @property
    def tile_cells(self) -> int:
        """Area of one tile."""
        return self.rows.tile * self.columns.tile

    @property
    def recompute(self) -> float:
        """Area that passes through the network over the picture's: 1 means none twice."""
        return self.count * self.tile_cells / (self.rows.length * self.columns.length)


def cut(length: int, largest: int, overlap: int) -> Axis:
    """The fewest stretches of at most ``largest`` that overlap by at least ``overlap``."""
    if largest >= length:
        return Axis(length, length, (0,))
    if largest <= overlap:
        raise PitstopError(
            f"tile is {largest} cells, its overlap {overlap}: pass a tile larger than its overlap"
        )
    return _in_stretches(length, -(-(length - overlap) // (largest - overlap)), overlap)


def _in_stretches(length: int, count: int, overlap: int) -> Axis:
    tile = min(length, -(-(length + (count - 1) * overlap) // count))
    last = length - tile
    steps = max(count - 1, 1)
    starts = sorted({(index * last + steps // 2) // steps for index in range(count)})
    return Axis(length, tile, tuple(starts))


def grids(height: int, width: int, overlap: int, smallest: int) -> Iterator[Grid]:
    """All grids whose tiles have edges of at least ``smallest``, from one tile to the most."""
    rows, columns = (_axes(length, overlap, smallest) for length in (height, width))
    yield from sorted(
        (Grid(row, column) for row in rows for column in columns),
        key=lambda grid: (grid.count, grid.recompute, abs(grid.rows.tile - grid.columns.tile)),
    )


def _axes(length: int, overlap: int, smallest: int) -> list[Axis]:
    """One axis for each number of stretches that leaves them long enough."""
    found = [Axis(length, length, (0,))]
    least = max(smallest, overlap + 1)
    for count in range(2, length + 1):
        axis = _in_stretches(length, count, overlap)
        if axis.tile < least:
            break
        if axis.tile < found[-1].tile:
            found.append(axis)
    return found
