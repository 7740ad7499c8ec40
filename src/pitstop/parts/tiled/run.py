"""Send one picture or clip through a VAE by a plan: whole stages, then tiles, or the reverse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from pitstop.core.errors import PitstopError
from pitstop.parts.group_norm.shared_norms import SharedNorms
from pitstop.parts.tiled.blend import Bands, Edge
from pitstop.parts.tiled.plan import Plan
from pitstop.parts.tiled.sampling import Share, shares
from pitstop.parts.tiled.strips import in_strips
from pitstop.parts.tiled.tiles import Grid
from pitstop.parts.vae.codecs import Memory, remembering
from pitstop.parts.vae.stages import Run, Stage, joined


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a VAE: stages in order, and what a cell is at its input."""

    stages: tuple[Stage, ...]
    zoom: int  # pixels per cell before the first stage
    time_zoom: int  # frames per latent frame before the first stage; 0: pictures
    memory: Memory | None

    def zoom_before(self, stage: int) -> int:
        """Pixels per cell at the input of a stage."""
        return self.stages[stage - 1].zoom if stage else self.zoom

    def time_before(self, stage: int) -> int:
        """Frames per latent frame at the input of a stage."""
        return self.stages[stage - 1].time_zoom if stage else self.time_zoom

    def run(self, first: int, last: int) -> Run:
        """Stages ``first`` to ``last`` (excluded) as one function."""

        def run(x: torch.Tensor) -> torch.Tensor:
            for stage in self.stages[first:last]:
                x = stage.run(x)
            return x

        return run


def chunk_frames(latent_frames: int, length: int, time_zoom: int) -> list[slice]:
    """Cut a clip in time: one latent frame and ``length`` more, then ``length`` at a time."""
    first = 1 + length
    edges = [0, *range(first, latent_frames, length), latent_frames]
    frames = [0 if edge == 0 else 1 + (edge - 1) * time_zoom for edge in edges]
    return [slice(start, end) for start, end in pairwise(frames)]


@dataclass(frozen=True, slots=True)
class Job:
    """One call: the way, the plan, and the frames of each temporal chunk in latent frames."""

    way: Way
    plan: Plan
    norms: SharedNorms
    latent_frames: int = 0
    chunk: int = 0  # latent frames; 0: all at once
    sample: float = 0.0  # work to spend on shared statistics, in pictures
    offload: bool = False

    def through(self, first: int, last: int, x: torch.Tensor) -> torch.Tensor:
        """Run stages on ``x``, chunk by chunk in time where there are chunks."""
        run, memory = self.way.run(first, last), self.way.memory
        if self.plan.chunks == 1 or first == last or memory is None:
            return run(x)
        parts = []
        with remembering(memory):
            memory.begin()
            cuts = chunk_frames(self.latent_frames, self.chunk, self.way.time_before(first))
            for self.norms.part, frames in enumerate(cuts):
                parts.append(run(x[:, :, frames]))
                memory.carry()
        self.norms.part = 0
        return torch.cat(parts, dim=2)

    def whole(self, first: int, last: int, x: torch.Tensor) -> torch.Tensor:
        """Run stages over the whole picture, in strips where the plan says so."""
        if all(step.strips == 1 for step in self.plan.steps):
            return self.through(first, last, x)
        for step in self.plan.steps:
            if first <= step.first < last:
                stage = joined(self.way.stages[step.first : step.last])
                zoom = self.way.zoom_before(step.first)
                x = in_strips(stage, x, zoom, step.strips) if step.strips > 1 else stage.run(x)
        return x

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """The whole way."""
        first, last = self.plan.tiled
        if self.plan.untiled:
            x = self.whole(0, len(self.way.stages), x)
            return x.cpu() if self.offload else x
        x = self.whole(0, first, x)
        modules = [each for stage in self.way.stages[first:last] for each in stage.modules]
        undo = self.norms.attach(modules if self.sample else ())
        try:
            if undo.steps:  # else there are no norms
                self._measure(x)
            x = self._tiles(x)
        finally:
            undo()
        return self.whole(last, len(self.way.stages), x)

    def _agree(self) -> bool:
        """Whether tiles differ at their borders alone: statistics are shared, or not needed."""
        stages = self.way.stages[slice(*self.plan.tiled)]
        parts = (part for stage in stages for module in stage.modules for part in module.modules())
        normed = any(isinstance(part, nn.GroupNorm) for part in parts)
        return self.plan.local and (self.sample > 0 or not normed)

    def _cutter(self, x: torch.Tensor, rows: int, columns: int) -> Callable[..., torch.Tensor]:
        """A function that cuts windows of so many cells, with pixels beyond the last cell if any.

        Those come with every tile: all have one shape, and the last has what the picture has.
        """
        zoom, grid = self.way.zoom_before(self.plan.tiled[0]), self.plan.grid
        height = rows * zoom + x.shape[-2] - grid.rows.length * zoom
        width = columns * zoom + x.shape[-1] - grid.columns.length * zoom

        def cut(corners: Sequence[tuple[int, int]]) -> torch.Tensor:
            windows = [
                x[..., top * zoom : top * zoom + height, left * zoom : left * zoom + width]
                for top, left in corners
            ]
            return torch.cat(windows)  # a copy, in the layout of x

        return cut

    def _measure(self, x: torch.Tensor) -> None:
        """Let a sample pass, so that the norms know the picture."""
        plan, (first, last) = self.plan, self.plan.tiled
        todo: list[Share] = shares(plan.grid, plan.margin, self.sample, plan.sample_cells)
        for number, share in enumerate([*todo, *todo[:1]] if len(todo) > 1 else todo):
            self.norms.sample = share.sample
            self.through(first, last, self._cutter(x, *share.sample.window)(share.corners))
            if number == 0 and len(todo) > 1:
                self.norms.count_less()
        self.norms.sample = None

    def _tiles(self, x: torch.Tensor) -> torch.Tensor:
        """Every tile, row by row, blended."""
        grid, (first, last), batch = self.plan.grid, self.plan.tiled, self.plan.batch
        zoom = self.way.stages[last - 1].zoom
        cut = self._cutter(x, grid.rows.tile, grid.columns.tile)
        bands = None
        for row, top in enumerate(grid.rows.starts):
            for begin in range(0, grid.columns.count, batch):
                columns = range(begin, min(begin + batch, grid.columns.count))
                corners = [(top, grid.columns.starts[column]) for column in columns]
                tiles = self.through(first, last, cut(corners))
                if bands is None:
                    edges = _edges(grid, zoom, tiles, self._agree())
                    offload = self.offload and last == len(self.way.stages)
                    bands = Bands(*edges, tiles[: tiles.shape[0] // len(columns)], offload)
                bands.add(row, columns, tiles)
                del tiles
            if bands is not None:
                bands.finish_row(row)
        assert bands is not None  # there is at least one tile
        return bands.finished()


def _edges(grid: Grid, zoom: int, tiles: torch.Tensor, agree: bool) -> tuple[Edge, Edge]:
    """Both edges of the result; pixels beyond the last cell stay until the last stage is done."""
    axes = (grid.rows, grid.columns)
    rests = [side - axis.tile * zoom for side, axis in zip(tiles.shape[-2:], axes, strict=True)]
    if not all(0 <= rest < zoom for rest in rests):
        raise PitstopError(
            f"a tile came back as {tuple(tiles.shape[-2:])} where {grid.rows.tile * zoom} x "
            f"{grid.columns.tile * zoom} pixels were due: pass the scale of this VAE to adapt(), "
            "or a picture whose sides are multiples of it"
        )
    rows, columns = (Edge(axis, zoom, rest, agree) for axis, rest in zip(axes, rests, strict=True))
    return rows, columns
