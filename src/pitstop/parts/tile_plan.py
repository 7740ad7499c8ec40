"""The plan: the fewest tiles that fit a memory budget, and what they are expected to need.

Every stage is measured at two small sizes; its memory is a constant plus so much per cell, so a
line through both says what any size will need. The largest stage of a tile, what is kept beside
it, and what was allocated before must fit the budget. Stages that run over the whole picture see
everything, and nothing in them is computed twice, but what they hand on must be kept: for each
number of them the fewest tiles are found, and the plan with the least work done twice is taken.
"""

import math
from dataclasses import dataclass, replace

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes, count
from pitstop.parts.tiles import Axis, Grid, cut, grids

SMALLEST = 16  # cells: below this a tile is mostly overlap
MARGIN = 1.04  # kernels choose other workspaces at other sizes
SAMPLE_SHARE = 0.7  # of a tile's cells in one share of the sample: measuring takes copies


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


@dataclass(frozen=True, slots=True)
class Costs:
    """What the stages of one way need, and what lies between them."""

    peaks: tuple[Need, ...]  # of each stage, its input not counted
    borders: tuple[float, ...]  # bytes per cell before each stage, and of the result
    sums: tuple[float, ...]  # the same in the precision that tiles are added up in
    grows: bool  # decoding: whole stages come first; encoding: last

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self.peaks)

    def run(self, first: int, last: int, cells: int) -> float:
        """Peak of stages ``first`` to ``last`` (excluded) on so many cells, input not counted."""
        peak = 0.0
        for stage in range(first, last):
            held = self.borders[stage] * cells if stage > first else 0.0
            peak = max(peak, self.peaks[stage].at(cells) + held)
        return peak


@dataclass(frozen=True, slots=True)
class Plan:
    """How one picture goes through: the tiles, what runs whole, and the memory it should take."""

    grid: Grid
    overlap: int  # cells
    whole: int  # stages over the whole picture
    tiled: tuple[int, int]  # first tiled stage, and the one after the last
    zoom: int  # pixels per cell, for people
    budget_bytes: int
    predicted_bytes: int
    batch: int = 1
    chunks: int = 1  # in time
    local: bool = True  # whether a window of a sample shows what the whole picture would

    @property
    def untiled(self) -> bool:
        """Whether one tile does it."""
        return self.grid.count == 1

    @property
    def margin(self) -> int:
        """Cells around a measured block: half of what a border reaches is felt hardly anywhere."""
        return max(1, self.overlap // (4 if self.whole else 2))

    @property
    def sample_cells(self) -> int:
        """Cells that may pass through at once while statistics are measured."""
        return int(SAMPLE_SHARE * self.batch * self.grid.tile_cells)

    def __str__(self) -> str:
        """One line for people."""
        rows, columns = self.grid.rows, self.grid.columns
        size = f"{columns.tile * self.zoom}x{rows.tile * self.zoom}"
        if self.untiled:
            how = f"untiled, {size}"
        else:
            how = (
                f"{count(self.grid.count, 'tile')} ({rows.count} x {columns.count}) of {size}, "
                f"overlap {self.overlap * self.zoom}, {self.grid.recompute:.2f} x the area, "
                f"{count(self.whole, 'stage')} whole, batch {self.batch}"
            )
        if self.chunks > 1:
            how += f", {self.chunks} chunks in time"
        memory = f"{binary_bytes(self.predicted_bytes)} of {binary_bytes(self.budget_bytes)}"
        return f"{how}; predicted peak {memory}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a plan must respect, in cells and bytes."""

    overlaps: tuple[int, ...]  # by the number of whole stages
    budget_bytes: int
    base_bytes: int  # allocated before anything runs
    largest: int | None = None  # edge of a tile
    batch: int = 1
    middle: bool = True  # whether any stage may run whole
    offload: bool = False  # the result is not kept on the device
    zoom: int = 1
    chunks: int = 1
    sample: float = 0.0  # work spent on shared statistics, in pictures
    local: bool = True  # whether no stage looks at the whole picture
    times: float = 1.0  # frames of the clip over those of a chunk


def make_plan(costs: Costs, height: int, width: int, wish: Wish) -> Plan:
    """The fewest tiles of one shape that fit, with as many stages whole as saves work."""
    untiled = Grid(*(Axis(length, length, (0,)) for length in (height, width)))
    plan = _plan(costs, untiled, 0, wish)
    may_be_one = wish.largest is None or wish.largest >= max(height, width)
    if may_be_one and plan.predicted_bytes <= wish.budget_bytes:
        return plan
    deepest = costs.stages - 1 if wish.middle else 0
    plans = [_fewest(costs, height, width, whole, wish) for whole in range(deepest, -1, -1)]
    fitting = [plan for plan in plans if plan.predicted_bytes <= wish.budget_bytes]
    seeing = [plan for plan in fitting if plan.whole] or fitting
    if seeing:
        return min(seeing, key=lambda plan: _work_again(costs, plan, wish))
    least = min(plans, key=lambda plan: plan.predicted_bytes)
    raise PitstopError(
        f"budget_bytes is {binary_bytes(wish.budget_bytes)}, but tiles of {least.grid.columns.tile}"
        f" x {least.grid.rows.tile} cells need {binary_bytes(least.predicted_bytes)}: "
        "pass a larger budget_bytes" + (" or a smaller tile" if wish.largest else "")
    )


def _work_again(costs: Costs, plan: Plan, wish: Wish) -> float:
    """Work beyond the untiled picture's, by the memory that each stage works on."""
    tiled = sum(costs.peaks[stage].per_cell for stage in range(*plan.tiled))
    return tiled * (plan.grid.recompute - 1 + wish.sample)


def _fewest(costs: Costs, height: int, width: int, whole: int, wish: Wish) -> Plan:
    """The first plan that fits; the smallest tiles where none does."""
    overlap = wish.overlaps[whole]
    if wish.largest is None:
        candidates = grids(height, width, overlap, SMALLEST)
    else:
        asked = Grid(*(cut(length, wish.largest, overlap) for length in (height, width)))
        candidates = iter([asked])
    least = None
    for grid in candidates:
        plan = _plan(costs, grid, whole, wish)
        if plan.predicted_bytes <= wish.budget_bytes:
            return plan
        if least is None or plan.predicted_bytes < least.predicted_bytes:
            least = plan
    assert least is not None  # there is always the grid of one tile
    return least


def _plan(costs: Costs, grid: Grid, whole: int, wish: Wish) -> Plan:
    stages = costs.stages
    first, last = (whole, stages) if costs.grows else (0, stages - whole)
    if grid.count == 1:
        first, last, whole = 0, stages, 0
    plan = Plan(
        *(grid, wish.overlaps[whole], whole, (first, last), wish.zoom, wish.budget_bytes, 0),
        batch=min(wish.batch, grid.columns.count),
        chunks=wish.chunks,
        local=whole > 0 or wish.local,
    )
    peak = _untiled_peak(costs, plan, wish) if plan.untiled else _tiled_peak(costs, plan, wish)
    return replace(plan, predicted_bytes=math.ceil(wish.base_bytes + MARGIN * peak))


def _untiled_peak(costs: Costs, plan: Plan, wish: Wish) -> float:
    cells = plan.grid.tile_cells
    kept = costs.borders[-1] * cells * (2 * wish.times if plan.chunks > 1 else 0)
    return costs.run(0, costs.stages, cells) + kept


def _tiled_peak(costs: Costs, plan: Plan, wish: Wish) -> float:
    """The largest of three phases: whole stages before, tiles, whole stages after."""
    (first, last), grid, times = plan.tiled, plan.grid, wish.times
    cells = grid.rows.length * grid.columns.length
    band_cells = grid.rows.tile * grid.columns.length
    taken = plan.batch * grid.tile_cells
    before = costs.borders[first] * cells * times if first else 0.0
    kept_here = not (wish.offload and last == costs.stages)
    after = costs.borders[last] * cells * times if kept_here else 0.0
    band = costs.sums[last] * band_cells * times
    tiles = costs.run(first, last, taken) + costs.borders[first] * taken
    tiles += (costs.sums[last] + costs.borders[last] * (plan.chunks > 1)) * taken * times
    rounded = (costs.borders[last] + costs.sums[last]) * band_cells * times
    return max(
        costs.run(0, first, cells) + (before if plan.chunks > 1 else 0),
        before + after + band + max(tiles, rounded),
        costs.borders[last] * cells * times + costs.run(last, costs.stages, cells),
    )
