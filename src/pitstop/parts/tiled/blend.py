"""Put tiles together: weights that sum to one at every pixel, one band of rows at a time.

A tile's weight is a separable cosine ramp of the distance to its inner edges. The ramp lies in the
middle of the overlap: nearer to the edge, where the surroundings are missing, a tile does not count
at all. Tiles that agree need a short ramp, others one of half the overlap. The weights of each axis
are divided by their sum once, in double precision; products of two such axes sum to one wherever
two, four or more tiles meet.

Sums are kept in fp32 (fp64 for fp64), and only for the rows that are not finished: a finished row
is rounded once and goes to the result, on the device, or on the CPU through two pinned buffers,
each with an event, while the next tiles are computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pitstop.parts.tiled.tiles import Axis


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of the result: its tiles, pixels per cell, and pixels beyond the last cell."""

    axis: Axis
    zoom: int
    rest: int = 0
    short: bool = False  # whether the ramp is one cell, or half the overlap

    @property
    def tile(self) -> int:
        """Pixels of a tile."""
        return self.axis.tile * self.zoom + self.rest

    @property
    def length(self) -> int:
        """Pixels of the picture."""
        return self.axis.length * self.zoom + self.rest

    @property
    def starts(self) -> tuple[int, ...]:
        """First pixel of every tile."""
        return tuple(start * self.zoom for start in self.axis.starts)


def weights(edge: Edge, device: torch.device | str = "cpu") -> torch.Tensor:
    """Weights (tiles, pixels of a tile) along one edge; at each pixel they sum to one."""
    starts = torch.tensor(edge.starts, dtype=torch.float64)[:, None]
    size, length = edge.tile, edge.length
    place = starts + torch.arange(size, dtype=torch.float64) + 0.5  # pixel centres
    before = torch.where(starts > 0, place - starts, torch.inf)
    after = torch.where(starts + size < length, starts + size - place, torch.inf)
    overlap = _least_overlap(edge)
    ramp = max(min(edge.zoom, overlap) if edge.short else overlap / 2, 1.0)
    rise = (torch.minimum(before, after) - (overlap - ramp) / 2) / ramp
    raw = 0.5 - 0.5 * torch.cos(torch.pi * rise.clamp(0, 1))
    sums = torch.zeros(length, dtype=torch.float64)
    index = place.long()
    sums.index_add_(0, index.flatten(), raw.flatten())
    return (raw / sums[index]).float().to(device)


def _least_overlap(edge: Edge) -> int:
    pairs = zip(edge.starts, edge.starts[1:], strict=False)
    return min((before + edge.tile - after for before, after in pairs), default=0)


class Bands:
    """Adds up tiles of one row of tiles after the other; finished rows go to the result."""

    def __init__(self, rows: Edge, columns: Edge, like: torch.Tensor, offload: bool) -> None:
        self.rows, self.columns = rows, columns
        exact = torch.promote_types(like.dtype, torch.float32)
        lead = like.shape[:-2]  # of one tile: (N, C) or (N, C, T)
        self.weights = [weights(edge, like.device).to(exact) for edge in (rows, columns)]
        self.sums = torch.zeros((*lead, rows.tile, columns.length), dtype=exact, device=like.device)
        self.result = torch.empty(
            (*lead, rows.length, columns.length),
            dtype=like.dtype,
            device="cpu" if offload else like.device,
        )
        self.pinned = _Pinned(self.result) if offload and like.is_cuda else None

    def add(self, row: int, columns: Sequence[int], tiles: torch.Tensor) -> None:
        """Add tiles of one row, stacked along the batch dimension in the order of ``columns``."""
        for column, tile in zip(columns, tiles.chunk(len(columns)), strict=True):
            weight = self.weights[0][row][:, None] * self.weights[1][column]
            left = self.columns.starts[column]
            place = self.sums[..., left : left + self.columns.tile]
            place.addcmul_(tile.to(self.sums.dtype), weight)

    def finish_row(self, row: int) -> None:
        """Round the rows that no later tile touches, and move the others up."""
        starts = self.rows.starts
        last = row + 1 == len(starts)
        ready = self.rows.tile if last else starts[row + 1] - starts[row]
        rounded = self.sums[..., :ready, :].to(self.result.dtype)
        if self.pinned is None:
            self.result[..., starts[row] : starts[row] + ready, :] = rounded
        else:
            self.pinned.send(rounded, starts[row])
        if not last:
            rest = self.sums[..., ready:, :].clone()
            self.sums.zero_()
            self.sums[..., : rest.shape[-2], :] = rest

    def finished(self) -> torch.Tensor:
        """The picture, complete."""
        if self.pinned is not None:
            self.pinned.drain()
        return self.result


class _Pinned:
    """Two page-locked buffers between the device and a result in pageable memory."""

    def __init__(self, result: torch.Tensor) -> None:
        self.result = result
        self.flying: list[tuple[torch.Tensor, torch.cuda.Event, int]] = []

    def send(self, rows: torch.Tensor, top: int) -> None:
        """Start copying ``rows`` to the result's rows from ``top`` on; wait only for a buffer."""
        if len(self.flying) > 1:
            self._land()
        buffer = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
        buffer.copy_(rows, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.flying.append((buffer, event, top))

    def _land(self) -> None:
        buffer, event, top = self.flying.pop(0)
        event.synchronize()
        self.result[..., top : top + buffer.shape[-2], :] = buffer

    def drain(self) -> None:
        """Wait for everything that is still on its way."""
        while self.flying:
            self._land()
