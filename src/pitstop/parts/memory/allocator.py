"""The caching allocator of CUDA, played with numbers: which blocks it takes, splits and keeps.

Memory in use is counted in its blocks, not in bytes asked for: sizes are rounded up to 512 bytes,
and what is left of a large block is split off only if it is more than 1 MiB. Segments are taken
from the driver in 2 MiB, 20 MiB or multiples of 2 MiB, and kept: their sum is what must fit.
The rules are those of ``c10/cuda/CUDACachingAllocator.cpp`` for one stream and default settings.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

MIB = 2**20
SMALLEST = 512  # bytes; every size is rounded up to a multiple of it
SMALL = MIB  # requests up to here share segments of their own
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
OWN_SEGMENT = 10 * MIB  # requests from here on get a segment of their size
ROUNDED = 2 * MIB  # to which such a segment is rounded up


@dataclass(slots=True, eq=False)
class Piece:
    """A stretch of a segment, free or in use, between its neighbours."""

    segment: int
    start: int
    size: int
    small: bool
    free: bool = True
    before: "Piece | None" = None
    after: "Piece | None" = None

    @property
    def place(self) -> tuple[int, int, int]:
        """By which the best fit is found: the smallest first, and of those the lowest."""
        return self.size, self.segment, self.start


@dataclass(slots=True)
class _Pool:
    """The free pieces of one kind, sorted."""

    places: list[tuple[int, int, int]] = field(default_factory=list)
    pieces: dict[tuple[int, int, int], Piece] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        insort(self.places, piece.place)
        self.pieces[piece.place] = piece

    def drop(self, piece: Piece) -> None:
        del self.places[bisect_left(self.places, piece.place)]
        del self.pieces[piece.place]

    def best(self, size: int) -> Piece | None:
        """The smallest that is large enough."""
        at = bisect_left(self.places, (size, -1, -1))
        return self.pieces[self.places[at]] if at < len(self.places) else None


class CachingAllocator:
    """Takes and frees blocks by number; knows what is in use and what is held of the GPU."""

    def __init__(self) -> None:
        self.allocated = self.reserved = 0
        self._pools = {True: _Pool(), False: _Pool()}
        self._used: dict[int, Piece] = {}
        self._segments = 0

    def take(self, number: int, size: int) -> int:
        """A block of at least ``size`` bytes, none for an empty tensor; how large it is."""
        if size <= 0:
            return 0
        wanted = -(-size // SMALLEST) * SMALLEST
        piece = self._pools[wanted <= SMALL].best(wanted)
        if piece is None:
            piece = self._segment(wanted)
        else:
            self._pools[piece.small].drop(piece)
        self._split(piece, wanted)
        piece.free = False
        self._used[number] = piece
        self.allocated += piece.size
        return piece.size

    def free(self, number: int) -> None:
        """Give the block back; it joins free neighbours."""
        piece = self._used.pop(number, None)
        if piece is None:
            return
        self.allocated -= piece.size
        for other in (piece.before, piece.after):
            if other is not None and other.free:
                self._pools[other.small].drop(other)
                piece = _joined(piece, other)
        piece.free = True
        self._pools[piece.small].add(piece)

    def _segment(self, wanted: int) -> Piece:
        small = wanted <= SMALL
        if small:
            size = SMALL_SEGMENT
        elif wanted < OWN_SEGMENT:
            size = LARGE_SEGMENT
        else:
            size = -(-wanted // ROUNDED) * ROUNDED
        self._segments += 1
        self.reserved += size
        return Piece(self._segments, 0, size, small)

    def _split(self, piece: Piece, wanted: int) -> None:
        left = piece.size - wanted
        if left < SMALLEST if piece.small else left <= SMALL:
            return
        rest = Piece(piece.segment, piece.start + wanted, left, piece.small)
        rest.before, rest.after = piece, piece.after
        if piece.after is not None:
            piece.after.before = rest
        piece.after, piece.size = rest, wanted
        self._pools[rest.small].add(rest)


def _joined(one: Piece, other: Piece) -> Piece:
    first, second = (one, other) if one.start < other.start else (other, one)
    first.size += second.size
    first.after = second.after
    if second.after is not None:
        second.after.before = first
    return first


class PlainMemory:
    """Bytes as they are asked for: main memory, where nobody rounds."""

    def __init__(self) -> None:
        self.allocated = self.reserved = 0
        self._sizes: dict[int, int] = {}

    def take(self, number: int, size: int) -> int:
        """A block of ``size`` bytes."""
        self._sizes[number] = size
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)
        return size

    def free(self, number: int) -> None:
        """Give it back."""
        self.allocated -= self._sizes.pop(number, 0)
