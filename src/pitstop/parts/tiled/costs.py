"""What the stages of a VAE need, in bytes: a constant and so much per cell."""

from dataclasses import dataclass
from typing import NamedTuple

from pitstop.parts.tiled.tiles import Grid


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that grow with the number of cells."""

    fixed: float
    per_cell: float

    def at(self, cells: int) -> float:
        """Bytes at one size."""
        return self.fixed + self.per_cell * cells


def line(small: tuple[int, int], large: tuple[int, int]) -> Need:
    """The line through two measurements (cells, bytes); neither part of it is negative."""
    (cells, low), (more_cells, high) = small, large
    slope = (high - low) / (more_cells - cells) if more_cells > cells else high / more_cells
    fixed = max(high - slope * more_cells, 0.0)
    return Need(fixed, max(slope, (high - fixed) / more_cells))


class Step(NamedTuple):
    """Stages over the whole picture, in so many strips; more than one stage only in strips."""

    first: int
    last: int
    strips: int = 1


@dataclass(frozen=True, slots=True)
class Costs:
    """What the stages of one way need, and what lies between them."""

    peaks: tuple[Need, ...]  # of each stage, its input not counted
    borders: tuple[float, ...]  # bytes per cell before each stage, and of the result
    sums: tuple[float, ...]  # the same in the precision that tiles are added up in
    grows: bool  # decoding: whole stages come first; encoding: last
    halos: tuple[int | None, ...]  # of each stage: cells around a strip; None: no strips
    waits: tuple[bool, ...]  # whether a stage may run in strips together with the next

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self.peaks)

    @property
    def large(self) -> int:
        """The stage between the network and the pixels."""
        return self.stages - 1 if self.grows else 0

    def run(self, first: int, last: int, cells: int) -> float:
        """Peak of stages ``first`` to ``last`` (excluded) on so many cells, input not counted."""
        peak = 0.0
        for stage in range(first, last):
            held = self.borders[stage] * cells if stage > first else 0.0
            peak = max(peak, self.peaks[stage].at(cells) + held)
        return peak

    def whole(self, step: Step, grid: Grid) -> float:
        """Peak of stages over the whole picture, input not counted."""
        rows, columns = grid.rows.length, grid.columns.length
        if step.strips == 1:
            return self.run(step.first, step.last, rows * columns)
        halo = sum(each or 0 for each in self.halos[step.first : step.last])
        part = min(rows, -(-rows // step.strips) + 2 * halo) * columns
        passing = self.run(step.first, step.last, part) + self.borders[step.first] * part
        return self.borders[step.last] * rows * columns + passing
