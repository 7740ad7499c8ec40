"""Which blocks of a picture are measured for shared statistics: enough, and spread evenly.

The picture is divided into fields of one size, and each gives one block, somewhere inside it. Every
block passes with a margin around it that is not measured. Blocks are wide rather than many, since
margins cost and hardly a gap between blocks is wider than what a picture shows.
"""

from dataclasses import dataclass

from pitstop.parts.group_norm.shared_norms import Sample
from pitstop.parts.tiled.tiles import Grid

LATTICE = (0.7548776662466927, 0.5698402909980532)  # spreads any number of points evenly in 2-D
BLOCK = (16, 32)  # cells: a margin of 1 around it costs a fifth
FEWEST = 2048  # cells: fewer do not show what a picture is like
FIELDS = (8, 4)  # at least so many down and across, with smaller blocks in a small picture


@dataclass(frozen=True, slots=True)
class Share:
    """Windows that pass through together: their corners in the picture, and the blocks in them."""

    corners: tuple[tuple[int, int], ...]
    sample: Sample


def shares(grid: Grid, margin: int, work: float, cells: int) -> list[Share]:
    """Windows worth ``work`` times a picture that is not small, in shares of ``cells`` cells."""
    lengths = (grid.rows.length, grid.columns.length)
    block = tuple(
        min(side, max(length // fields, 1))
        for side, length, fields in zip(BLOCK, lengths, FIELDS, strict=True)
    )
    window = tuple(min(side + 2 * margin, n) for side, n in zip(block, lengths, strict=True))
    size = window[0] * window[1]
    wanted = max(work * lengths[0] * lengths[1], FEWEST) / size
    counts = _fields(lengths, block, wanted)
    places = _places(lengths, block, counts)
    together = max(1, cells // size)
    parts = -(-len(places) // together)
    together = len(places) // parts  # equal shares: the few blocks left over are not measured
    return [_share(places[part::parts][:together], lengths, block, window) for part in range(parts)]


def _fields(lengths: tuple[int, ...], block: tuple[int, ...], wanted: float) -> tuple[int, int]:
    """Fields down and across: about as many as wanted, none smaller than a block."""
    most = [length // side for length, side in zip(lengths, block, strict=True)]
    density = min(1.0, wanted / (most[0] * most[1])) ** 0.5
    down = min(max(round(most[0] * density), 1), most[0])
    return down, min(max(round(wanted / down), 1), most[1])


def _places(
    lengths: tuple[int, ...], block: tuple[int, ...], counts: tuple[int, int]
) -> list[tuple[int, int]]:
    """Corners of the blocks, in an order whose every part is spread over the picture."""
    places = []
    for i in range(counts[0]):
        for j in range(counts[1]):
            key = (i * LATTICE[0] + j * LATTICE[1]) % 1
            other = (i * LATTICE[1] + j * LATTICE[0]) % 1
            corner = tuple(
                int(index * length / count + shift * (length / count - side))
                for index, length, count, shift, side in zip(
                    (i, j), lengths, counts, (key, other), block, strict=True
                )
            )
            places.append((key, corner))
    return [(corner[0], corner[1]) for _, corner in sorted(places)]


def _share(
    places: list[tuple[int, int]],
    lengths: tuple[int, ...],
    block: tuple[int, ...],
    window: tuple[int, ...],
) -> Share:
    corners, inside = [], []
    for place in places:
        start = [
            min(max(at - (w - side) // 2, 0), n - w)
            for at, w, side, n in zip(place, window, block, lengths, strict=True)
        ]
        corners.append((start[0], start[1]))
        inside.append((place[0] - start[0], place[1] - start[1]))
    sample = Sample((window[0], window[1]), (block[0], block[1]), tuple(inside))
    return Share(tuple(corners), sample)
