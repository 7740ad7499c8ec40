"""Several tiles at once, if that is faster: small tiles do not fill a GPU."""

import statistics
import time
from dataclasses import replace

import torch

from pitstop.core.errors import PitstopError
from pitstop.parts.tiled.costs import Costs
from pitstop.parts.tiled.plan import Plan, Wish, make_plan
from pitstop.parts.tiled.run import Way

WORTH_IT = 0.97  # of the time per tile: less gain is noise
ROUNDS = 3
FEW_CELLS = 4  # enough to learn what the tiled stages are given


def best_batch(costs: Costs, way: Way, plan: Plan, wish: Wish, like: torch.Tensor) -> Plan:
    """The plan with as many tiles at a time as fits and is fastest; tried by running them."""
    rows, columns = plan.grid.rows, plan.grid.columns
    best, best_ms = plan, _tile_ms(way, plan, like)
    for batch in range(2, columns.count + 1):
        if columns.count % batch:
            continue  # the last batch would have another shape
        try:
            larger = make_plan(costs, rows.length, columns.length, replace(wish, batch=batch))
        except PitstopError:
            break
        if larger.grid != plan.grid or larger.tiled != plan.tiled:
            break
        spent_ms = _tile_ms(way, larger, like)
        if spent_ms < WORTH_IT * best_ms:
            best, best_ms = larger, spent_ms
    return best


def _tile_ms(way: Way, plan: Plan, like: torch.Tensor) -> float:
    """Time of one tile in a batch, on zeros."""
    first, last = plan.tiled
    side = FEW_CELLS * way.zoom
    features = way.run(0, first)(like.new_zeros((*like.shape[:-2], side, side)))
    zoom, grid = way.zoom_before(first), plan.grid
    size = (grid.rows.tile * zoom, grid.columns.tile * zoom)
    x = features.new_zeros((plan.batch * features.shape[0], *features.shape[1:-2], *size))
    run = way.run(first, last)

    def once() -> float:
        start = time.perf_counter()
        run(x)
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        return 1e3 * (time.perf_counter() - start) / plan.batch

    once()
    return statistics.median(once() for _ in range(ROUNDS))
