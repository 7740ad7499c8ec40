"""Fits: what was seen, played again for other batches, until a card is full.

Weights, their gradients and the optimizer's state stay as they are, and so does what is as large
as a weight of its module: a copy in lower precision, or a gradient before it is added. All else
grows with the batch.
"""

from collections import defaultdict
from collections.abc import Callable

from pitstop.memory.plan import Seen
from pitstop.parts.memory.account import Account, account_of, own_size
from pitstop.parts.memory.trace import Block, Trace
from pitstop.parts.memory.workspace import CUBLAS

FIXED = frozenset(("parameters", "buffers", "gradients", "optimizer state"))
COPIES = (0.5, 1, 2)  # of a weight: in half precision, as it is, or in full precision
MOST = 1024  # times the batch: nobody asks for more


def needs(seen: Seen, times: float = 1.0) -> Account:
    """What a GPU must hold, for so many times the batch."""
    standing = (CUBLAS,) * (2 if seen.training else 1)
    sizes = _growing(seen.trace, times) if times != 1.0 else own_size
    return account_of(seen.trace, rounded=True, standing_bytes=standing, size_of=sizes)


def largest(seen: Seen, room_bytes: int) -> float:
    """How many times the batch fits, found by halves; 0 where even a small part does not."""

    def fits(times: float) -> bool:
        return needs(seen, times).reserved_bytes <= room_bytes

    whole = seen.batch or 1
    least, most = 0, 1
    while most <= MOST * whole and fits(most / whole):
        least, most = most, 2 * most
    while most - least > max(1, least // 64):
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle / whole) else (least, middle)
    return least / whole


def _growing(trace: Trace, times: float) -> Callable[[Block], int]:
    weights: dict[str, set[float]] = defaultdict(set)
    for block in trace.blocks:
        if block.kind == "parameters":
            weights[block.module].update(block.size * each for each in COPIES)

    def size(block: Block) -> int:
        fixed = block.kind in FIXED or block.phase == "optimizer"
        if fixed or block.size in weights[block.module]:
            return block.size
        return int(block.size * times)

    return size
