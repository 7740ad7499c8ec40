"""Answer: what was seen of a script, thought through; text and page only show it."""

from dataclasses import dataclass, replace

from pitstop.memory.cards import CONTEXT, bytes_of, room_of
from pitstop.memory.fits import largest, needs
from pitstop.memory.plan import Seen
from pitstop.parts.memory.account import Account


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU, and what of the script fits it."""

    name: str
    bytes: int
    room_bytes: int
    fits: bool
    times: float  # the batch


@dataclass(frozen=True, slots=True)
class Answer:
    """What the script needs."""

    command: str
    account: Account
    training: bool
    real: bool
    batch: int  # 0: not known
    trouble: str
    card: Card | None

    @property
    def needed_bytes(self) -> int:
        """Of a card, with CUDA's own."""
        return self.account.reserved_bytes + CONTEXT


def answer_of(seen: Seen, command: str, gpu: str) -> Answer:
    """For the GPU that was named, or for that of this machine."""
    account = needs(seen)
    if seen.measured_bytes > account.peak_bytes:  # the allocator saw what nobody else could
        more = seen.measured_bytes - account.peak_bytes
        kinds = {**account.kinds, "workspace": account.kinds.get("workspace", 0) + more}
        reserved = account.reserved_bytes + more
        account = replace(
            account, peak_bytes=seen.measured_bytes, reserved_bytes=reserved, kinds=kinds
        )
    card = None
    if gpu or seen.gpu_bytes:
        size = bytes_of(gpu) if gpu else seen.free_bytes
        room = room_of(size) if gpu else size  # its context is there already
        fits = account.reserved_bytes <= room
        card = Card(gpu or f"{seen.gpu} (free)", size, room, fits, largest(seen, room))
    return Answer(command, account, seen.training, seen.real, seen.batch, seen.trouble, card)
