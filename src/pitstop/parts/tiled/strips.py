"""Run a stage over a whole picture in strips of rows: exact, and with little beside its result.

A convolution needs one row beyond a strip, so a strip passes with a halo that is cut off again. A
norm needs the statistics of the whole picture. They are measured one norm after the other: all
strips run up to the first norm that is not known yet and no farther, then it is known. For a
residual block that is its first convolution twice. Nothing is blended and nothing is estimated.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import torch

from pitstop.parts.group_norm.shared_norms import Sample, SharedNorms, UnknownNorm
from pitstop.parts.vae.stages import Stage

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


class Strip(NamedTuple):
    """Rows of cells: what passes, and the part of it that counts."""

    start: int
    rows: int
    sample: Sample


def cut_strips(rows: int, columns: int, count: int, halo: int) -> Iterator[Strip]:
    """At most ``count`` strips; all pass as windows of one height."""
    tall = -(-rows // count)
    window = min(rows, tall + 2 * halo)
    for top in range(0, rows, tall):
        start = min(max(top - halo, 0), rows - window)
        size = (min(tall, rows - top), columns)
        yield Strip(start, window, Sample((window, columns), size, ((top - start, 0),)))


def in_strips(stage: Stage, x: torch.Tensor, zoom: int, count: int) -> torch.Tensor:
    """What ``stage.run(x)`` gives; ``zoom`` is the pixels per cell of ``x``."""
    assert stage.halo is not None  # else the planner cuts no strips
    rows, columns = (side // zoom for side in x.shape[-2:])
    strips = list(cut_strips(rows, columns, count, stage.halo))
    norms = SharedNorms()
    norms.one_by_one = True
    undo = norms.attach(stage.modules)
    result = None
    try:
        while result is None:
            for strip in reversed(strips):  # the last tells the height of the result
                norms.sample = strip.sample
                with suppress(UnknownNorm):
                    y = stage.run(_window(x, strip, zoom, rows))
                    result = _put(result, y, strip, stage.zoom, rows)
                    del y
            norms.settle()
    finally:
        undo()
    return result


def _window(x: torch.Tensor, strip: Strip, zoom: int, rows: int) -> torch.Tensor:
    """A copy of the rows of a strip, in the layout of ``x``; the last has all that is left."""
    end = strip.start + strip.rows
    return torch.cat([x[..., strip.start * zoom : None if end == rows else end * zoom, :]])


def _put(
    result: torch.Tensor | None, y: torch.Tensor, strip: Strip, zoom: int, rows: int
) -> torch.Tensor:
    """Copy what counts to its place in a result of the layout of ``y``."""
    skipped, tall = strip.sample.corners[0][0], strip.sample.block[0]
    top = strip.start + skipped
    ends = top + tall == rows
    counts = y[..., skipped * zoom : None if ends else (skipped + tall) * zoom, :]
    if result is None:
        layout = torch.contiguous_format if y.is_contiguous() else LAYOUTS[y.dim()]
        size = (*y.shape[:-2], top * zoom + counts.shape[-2], y.shape[-1])
        result = torch.empty(size, dtype=y.dtype, device=y.device, memory_format=layout)
    result[..., top * zoom : top * zoom + counts.shape[-2], :] = counts
    return result
