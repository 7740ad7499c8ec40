"""The plan: the fewest tiles that fit a memory budget, and what they are expected to need.

Every stage is measured at two small sizes; its memory is a constant plus so much per cell, so a
line through both says what any size will need. The largest stage of a tile, what is kept beside
it, and what was allocated before must fit the budget. Stages that run over the whole picture, at
once or in strips, are exact, but what they hand on must be kept: for each number of them the fewest
tiles are found, and the plan with the least work done twice is taken.
"""

import math
from dataclasses import dataclass, replace

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes, count
from pitstop.parts.tiled.costs import Costs, Step
from pitstop.parts.tiled.tiles import Axis, Grid, cut, grids

SMALLEST = 16  # cells: below this a tile is mostly overlap
MARGIN = 1.04  # kernels choose other workspaces at other sizes
STRIPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SLENDER = 4  # halos: a strip of fewer rows is a third halo
STRIP_WORK = 0.5  # of a stage in strips, done twice: a residual block's first convolution
SAMPLE_SHARE = 0.7  # of a tile's cells in one share of the sample: measuring takes copies


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
    steps: tuple[Step, ...] = ()  # through the stages that run whole

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
            strips = [str(step.strips) for step in self.steps if step.strips > 1]
            how += f", exact, in strips ({', '.join(strips)})" if strips else ""
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
    share: float | None = None  # of what the picture takes at once, as nearly as can be
    largest: int | None = None  # edge of a tile
    batch: int = 1
    middle: bool = True  # whether any stage may run whole
    offload: bool = False  # the result is not kept on the device
    zoom: int = 1
    chunks: int = 1
    sample: float = 0.0  # work spent on shared statistics, in pictures
    local: bool = True  # whether no stage looks at the whole picture
    times: float = 1.0  # frames of the clip over those of a chunk
    exact: bool = True  # whether strips will do, and tiles were not asked for

    @property
    def room(self) -> float:
        """Bytes that may be added to what is there."""
        return (self.budget_bytes - self.base_bytes) / MARGIN


def make_plan(costs: Costs, height: int, width: int, wish: Wish) -> Plan:
    """The fewest tiles of one shape that fit, with as many stages whole as saves work."""
    plan = _plan(costs, _one_tile(height, width), costs.stages, replace(wish, exact=False))
    if wish.share is not None:
        more = wish.share * (plan.predicted_bytes - wish.base_bytes)
        wish = replace(wish, budget_bytes=min(wish.base_bytes + int(more), wish.budget_bytes))
    may_be_one = wish.largest is None or wish.largest >= max(height, width)
    if may_be_one and plan.predicted_bytes <= wish.budget_bytes:
        return plan
    deepest = costs.stages - (0 if wish.exact and costs.halos[costs.large] is not None else 1)
    deepest = deepest if wish.middle else 0
    plans = [_fewest(costs, height, width, whole, wish) for whole in range(deepest, -1, -1)]
    fitting = [plan for plan in plans if plan.predicted_bytes <= wish.budget_bytes]
    seeing = [plan for plan in fitting if plan.whole] or fitting
    if seeing:
        return min(seeing, key=lambda plan: _work_again(costs, plan, wish))
    least = min(plans, key=lambda plan: plan.predicted_bytes)
    if wish.share is not None:
        return least  # a small picture does not get smaller
    raise PitstopError(
        f"budget_bytes is {binary_bytes(wish.budget_bytes)}, but tiles of {least.grid.columns.tile}"
        f" x {least.grid.rows.tile} cells need {binary_bytes(least.predicted_bytes)}: "
        "pass a larger budget_bytes" + (" or a smaller tile" if wish.largest else "")
    )


def _one_tile(height: int, width: int) -> Grid:
    return Grid(*(Axis(length, length, (0,)) for length in (height, width)))


def _work_again(costs: Costs, plan: Plan, wish: Wish) -> float:
    """Work beyond the untiled picture's, by the memory that each stage works on."""
    tiled = sum(costs.peaks[stage].per_cell for stage in range(*plan.tiled))
    in_strips = sum(
        costs.peaks[stage].per_cell
        for step in plan.steps
        for stage in range(step.first, step.last)
        if step.strips > 1
    )
    return tiled * (plan.grid.recompute - 1 + wish.sample) + STRIP_WORK * in_strips


def _whole_stages(costs: Costs, whole: int) -> range:
    return range(whole) if costs.grows else range(costs.stages - whole, costs.stages)


def _fewest(costs: Costs, height: int, width: int, whole: int, wish: Wish) -> Plan:
    """The first plan that fits; the smallest tiles where none does."""
    overlap = wish.overlaps[min(whole, costs.stages - 1)]
    if whole == costs.stages:
        candidates = iter([_one_tile(height, width)])
    elif wish.largest is None:
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
    whole = stages if grid.count == 1 else whole
    tiled = (whole, stages) if costs.grows else (0, stages - whole)
    overlap = wish.overlaps[min(whole, stages - 1)]
    plan = Plan(
        *(grid, overlap, whole, tiled, wish.zoom, wish.budget_bytes, 0),
        batch=min(wish.batch, grid.columns.count),
        chunks=wish.chunks,
        local=whole > 0 or wish.local,
        steps=_steps(costs, grid, _whole_stages(costs, whole), wish),
    )
    peak = max(
        _whole_peak(costs, plan, wish), 0.0 if plan.untiled else _tiles_peak(costs, plan, wish)
    )
    return replace(plan, predicted_bytes=math.ceil(wish.base_bytes + MARGIN * peak))


def _steps(costs: Costs, grid: Grid, stages: range, wish: Wish) -> tuple[Step, ...]:
    """Every stage for itself, in the fewest strips that fit; two together where they must."""
    steps: list[Step] = []
    for stage in stages:
        if steps and steps[-1].last > stage:
            continue  # it runs together with the one before it
        step = _in_strips(costs, grid, Step(stage, stage + 1), wish)
        if costs.waits[stage] and stage + 1 in stages:
            then = _in_strips(costs, grid, Step(stage + 1, stage + 2), wish)
            if max(_held(costs, grid, each) for each in (step, then)) > wish.room:
                step = _in_strips(costs, grid, Step(stage, stage + 2), wish)
        steps.append(step)
    return tuple(steps)


def _in_strips(costs: Costs, grid: Grid, step: Step, wish: Wish) -> Step:
    """The step with the fewest strips that fit, or with the most there may be."""
    if not wish.exact or wish.chunks > 1 or None in costs.halos[step.first : step.last]:
        return step
    cells = grid.rows.length * grid.columns.length
    large = costs.large in range(step.first, step.last)
    least = -(-cells // wish.largest**2) if wish.largest and large else 1
    halo = sum(each or 0 for each in costs.halos[step.first : step.last])
    most = max(1, grid.rows.length // (SLENDER * max(halo, 1)))
    counts = [each for each in STRIPS if least <= each <= most] or [most]
    choices = [step._replace(strips=each) for each in counts]
    return next((each for each in choices if _held(costs, grid, each) <= wish.room), choices[-1])


def _held(costs: Costs, grid: Grid, step: Step, times: float = 1.0) -> float:
    """Peak of a step with its input, unless that was there before."""
    cells = grid.rows.length * grid.columns.length
    before = costs.borders[step.first] * cells * times if step.first else 0.0
    return before + costs.whole(step, grid)


def _whole_peak(costs: Costs, plan: Plan, wish: Wish) -> float:
    """Peak of the stages that run over the whole picture."""
    kept = 0.0
    cells = plan.grid.rows.length * plan.grid.columns.length
    if plan.chunks > 1 and plan.untiled:
        kept = 2 * costs.borders[-1] * cells * wish.times
    elif plan.chunks > 1 and costs.grows:
        kept = costs.borders[plan.whole] * cells * wish.times
    behind_tiles = 0 if costs.grows else plan.tiled[1]
    peaks = [
        _held(costs, plan.grid, step, wish.times if step.first == behind_tiles else 1.0)
        for step in plan.steps
    ]
    return kept + max(peaks, default=0.0)


def _tiles_peak(costs: Costs, plan: Plan, wish: Wish) -> float:
    """Peak of the tiled stages, with what is kept before and behind them."""
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
    return before + after + band + max(tiles, rounded)
