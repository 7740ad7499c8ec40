"""Tiles: pictures that are cut into overlapping pieces, and the module calls on the pieces."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.diagnose.facts.calls import CallTree
from pitstop.diagnose.facts.operations import TENSOR, by_line, short, tensors

CUTS = {"slice", "narrow"}
COPIES = {"clone", "_to_copy", "contiguous"}  # a tile is often made contiguous where it is cut
PICTURE = 4  # axes at least: a cut of fewer is a window of a sequence
SEVERAL_PICTURES = 4.0  # times the area: no overlap explains that, several pictures do

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tiling:
    """One picture a step that goes through the model in pieces."""

    where: Line  # that cuts it
    tiles: int
    shapes: int  # different ones among them
    area: float  # of all tiles together, in pictures
    calls: tuple[int, ...]  # the outermost module calls on them, by position


def tilings(evidence: Evidence, tree: CallTree) -> list[Tiling]:
    """All pictures that lines outside the model cut along their last two axes, as tiles are."""
    outside = [each for each in evidence.operations if each.call < 0 and not each.backward]
    return [
        found
        for line, operations in by_line(outside).items()
        for found in _at_line(line, operations, tree)
    ]


def _at_line(line: Line, operations: list[Operation], tree: CallTree) -> Iterator[Tiling]:
    pictures = {
        given[0].sizes
        for each in operations
        if short(each) in CUTS and (given := tensors(each))
        if len(given[0].sizes) >= PICTURE and all(given[0].sizes)
    }
    pieces = _pieces(line, operations, tree) if pictures else {}
    for picture in pictures:
        tiles = {
            sizes: count for sizes, count in pieces.items() if _is_piece(sizes, picture, pictures)
        }
        area = sum(count * sizes[-2] * sizes[-1] for sizes, count in tiles.items())
        share = area / (picture[-2] * picture[-1])
        count = sum(tiles.values())
        if count > 1 and 1 <= share < SEVERAL_PICTURES:
            ends = {sizes[-2:] for sizes in tiles}
            yield Tiling(line, count, len(tiles), share, _calls_on(ends, tree))


def _pieces(line: Line, operations: list[Operation], tree: CallTree) -> dict[Sizes, int]:
    """What the line copies, or else hands to the model, by its sizes."""
    found: dict[Sizes, int] = defaultdict(int)
    for each in operations:
        if short(each) in COPIES and (given := tensors(each)):
            found[given[0].sizes] += each.calls
    if not found:
        for call in tree.calls:
            if call.where == line and call.parent < 0:
                found[_first_sizes(call.shapes)] += 1
    return found


def _is_piece(sizes: Sizes, picture: Sizes, pictures: set[Sizes]) -> bool:
    """Whether it is cut from this picture: equal but for a shorter height or width."""
    if sizes == picture or len(sizes) != len(picture) or sizes[:-2] != picture[:-2]:
        return False
    largest = max(
        (each for each in pictures if each[:-2] == sizes[:-2]), key=lambda x: x[-2] * x[-1]
    )
    return picture == largest and sizes[-2] <= picture[-2] and sizes[-1] <= picture[-1]


def _calls_on(ends: set[Sizes], tree: CallTree) -> tuple[int, ...]:
    """The script's own module calls on tensors of these heights and widths."""
    return tuple(
        position
        for position, call in enumerate(tree.calls)
        if call.parent < 0 and _first_sizes(call.shapes)[-2:] in ends
    )


def _first_sizes(shapes: str) -> Sizes:
    found = TENSOR.search(shapes)
    return tuple(int(size) for size in found.group(2).split(",") if size) if found else ()
