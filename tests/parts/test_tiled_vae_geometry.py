# mypy: disable-error-code="no-untyped-def,no-untyped-call"
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pitstop.core.errors import PitstopError
from pitstop.parts.tiled.blend import Bands, Edge, weights
from pitstop.parts.tiled.sampling import shares
from pitstop.parts.tiled.tiles import Grid, cut, grids


@st.composite
def axes(draw):
    length = draw(st.integers(1, 90))
    largest = draw(st.integers(1, 100))
    overlap = draw(st.integers(0, largest - 1))
    return cut(length, largest, overlap), largest, overlap


edges = st.builds(
    lambda axis, zoom, rest, short: Edge(axis[0], zoom, rest % zoom, short),
    axes(),
    st.sampled_from([1, 2, 3, 8]),
    st.integers(0, 7),
    st.booleans(),
)
few = settings(deadline=None, max_examples=150)


@few
@given(axes())
def test_tiles_cover_the_edge_with_one_length_and_the_overlap_asked_for(case):
    axis, largest, overlap = case
    assert axis.starts[0] == 0
    assert axis.starts[-1] + axis.tile == axis.length
    assert axis.tile <= max(largest, 1)
    assert all(before + axis.tile - after >= overlap for before, after in pairwise(axis.starts))


@few
@given(axes())
def test_no_fewer_tiles_would_do(case):
    axis, largest, overlap = case
    assert axis.count == 1 or (axis.count - 1) * (largest - overlap) + overlap < axis.length


@few
@given(edges)
def test_weights_sum_to_one_at_each_pixel_and_are_never_negative(edge):
    found, total = weights(edge), torch.zeros(edge.length, dtype=torch.float64)
    for start, each in zip(edge.starts, found, strict=True):
        total[start : start + edge.tile] += each.double()
    assert found.min() >= 0
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)


def blended(rows, columns, picture):
    """Every tile cut out of ``picture`` and put together again."""
    bands = None
    for row, top in enumerate(rows.starts):
        for column, left in enumerate(columns.starts):
            tile = picture[..., top : top + rows.tile, left : left + columns.tile]
            bands = bands or Bands(rows, columns, tile, offload=False)
            bands.add(row, [column], tile)
        bands.finish_row(row)
    return bands.finished()


@settings(deadline=None, max_examples=60)
@given(edges, edges, st.sampled_from([torch.float32, torch.bfloat16]))
def test_a_constant_stays_constant_and_a_gradient_a_gradient(rows, columns, dtype):
    constant = torch.full((1, 2, rows.length, columns.length), 0.7).to(dtype)
    assert torch.allclose(blended(rows, columns, constant), constant, atol=1e-6)
    slope = torch.linspace(-1, 1, rows.length)[:, None] * torch.linspace(0, 1, columns.length)
    picture = slope.expand(2, 3, -1, -1).to(dtype)
    assert torch.allclose(blended(rows, columns, picture).float(), picture.float(), atol=1e-6)


@pytest.mark.parametrize("short", [False, True])
def test_the_border_of_a_tile_does_not_count(short):
    edge = Edge(cut(30, 20, 8), 8, 0, short)
    first = weights(edge)[0]
    overlap = edge.starts[0] + edge.tile - edge.starts[1]
    ramp = 8 if short else overlap // 2
    assert first.count_nonzero() == edge.tile - (overlap - ramp) // 2
    assert first.eq(1).sum() == edge.tile - (overlap + ramp) // 2


def test_a_tile_no_larger_than_its_overlap_is_refused():
    with pytest.raises(PitstopError, match="tile is 8 cells, its overlap 8"):
        cut(64, 8, 8)


@few
@given(st.integers(16, 70), st.integers(16, 70), st.integers(0, 12))
def test_grids_come_with_ever_more_tiles_and_none_too_small(height, width, overlap):
    found = list(grids(height, width, overlap, 16))
    assert found[0].count == 1
    counts = [grid.count for grid in found]
    assert counts == sorted(counts)
    for grid in found[1:]:
        assert min(grid.rows.tile, grid.columns.tile) >= min(16, height, width)
        assert grid.recompute >= 1


@few
@given(
    *(st.integers(6, 70), st.integers(6, 70)),
    *(st.integers(0, 6), st.floats(0.01, 3), st.integers(1, 2000)),
)
def test_sampled_blocks_lie_inside_their_windows_and_the_picture(
    height, width, margin, work, cells
):
    found = shares(Grid(cut(height, 8, 2), cut(width, 8, 2)), margin, work, cells)
    assert len({len(share.corners) for share in found}) == 1
    seen = set()
    for share in found:
        (rows, columns), (tall, wide) = share.sample.window, share.sample.block
        for (top, left), (down, right) in zip(share.corners, share.sample.corners, strict=True):
            assert 0 <= top <= height - rows
            assert 0 <= left <= width - columns
            assert 0 <= down <= rows - tall
            assert 0 <= right <= columns - wide
            place = (top + down, left + right)
            assert place not in seen
            seen.add(place)
