"""Choose which blocks keep what their backward pass needs, and which compute it again.

A block that is computed again costs its own time once more. So of two blocks that hold as many
bytes the faster one is checkpointed. By bytes for each millisecond is nearly the best there is
where no block holds much of the whole; what is left over goes to whoever still fits.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

NEAR_LIMIT = 0.85  # of the device: fragments, cuDNN's work space and longer inputs need the rest


@dataclass(frozen=True, slots=True)
class Block:
    """What one block takes in one step: all its calls together."""

    held_bytes: int = 0  # between forward and backward pass, beside inputs and weights
    ms: float = 0.0  # of a forward pass, and so of computing it again
    calls: int = 0

    def plus(self, held_bytes: int, ms: float) -> "Block":
        """With one call more."""
        return replace(
            self,
            held_bytes=self.held_bytes + held_bytes,
            ms=self.ms + ms,
            calls=self.calls + 1,
        )


@dataclass(frozen=True, slots=True)
class Room:
    """How much the blocks may hold: one of the three, the first that is given."""

    keep: float | None = None  # share of what all of them would hold, 0 to 1
    keep_bytes: int | None = None
    peak_bytes: int | None = None  # of the device in use at most; none: what it has, nearly

    def bytes(
        self, blocks: Iterable[Block], in_use_bytes: int, device_bytes: Callable[[], int | None]
    ) -> int:
        """What may be held. ``in_use_bytes``: at most, while all of them are checkpointed."""
        held = [each.held_bytes for each in blocks]
        if self.keep is not None:
            return int(self.keep * sum(held))
        if self.keep_bytes is not None:
            return self.keep_bytes
        whole_bytes = device_bytes()
        if self.peak_bytes is None and whole_bytes is None:
            return sum(held)  # main memory: nobody knows who else wants it
        most_bytes = self.peak_bytes or int(NEAR_LIMIT * (whole_bytes or 0))
        return max(0, most_bytes - in_use_bytes - max(held, default=0))  # one is computed again


def keeping(blocks: Mapping[Hashable, Block], room_bytes: int) -> frozenset[Hashable]:
    """Those that keep what they need: most time for the bytes."""

    def ms_for_a_byte(key: Hashable) -> float:
        return blocks[key].ms / max(1, blocks[key].held_bytes)

    kept: list[Hashable] = []
    for key in sorted(blocks, key=ms_for_a_byte, reverse=True):
        if blocks[key].held_bytes <= room_bytes:
            room_bytes -= blocks[key].held_bytes
            kept.append(key)
    return frozenset(kept)
