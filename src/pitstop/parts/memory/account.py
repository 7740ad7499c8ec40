"""Account: play a trace to its peak, and say who holds what in that moment."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pitstop.parts.memory.allocator import CachingAllocator, PlainMemory
from pitstop.parts.memory.trace import Block, Trace

POINTS = 600  # of a timeline: as many as a picture has columns
KINDS = (
    "parameters",
    "buffers",
    "gradients",
    "optimizer state",
    "batch",
    "activations",
    "temporary",
    "workspace",
)
Sizes = Callable[[Block], int]


@dataclass(frozen=True, slots=True)
class Share:
    """What one module, or one line, holds at the peak."""

    name: str
    bytes: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of a timeline: the highest of a few."""

    moment: int  # how many blocks were made or freed before
    phase: str
    bytes: int
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class Account:
    """What a step holds at its peak."""

    peak_bytes: int  # in blocks of the allocator, as ``torch.cuda.max_memory_allocated`` counts
    reserved_bytes: int  # taken from the GPU, with what lies between the blocks
    phase: str  # in which the peak comes
    kept_bytes: int  # for the backward pass, when the last one begins
    kinds: dict[str, int]
    modules: tuple[Share, ...]
    lines: tuple[Share, ...]
    timeline: tuple[Point, ...]


def own_size(block: Block) -> int:
    """As it was seen."""
    return block.size


def account_of(
    trace: Trace, rounded: bool, standing_bytes: tuple[int, ...] = (), size_of: Sizes = own_size
) -> Account:
    """Play the trace; ``standing_bytes``: blocks of libraries that are there all the time."""
    memory = CachingAllocator() if rounded else PlainMemory()
    standing = sum(memory.take(~number, size) for number, size in enumerate(standing_bytes))
    kinds = Counter({"workspace": standing})
    living: dict[int, int] = {}
    held: dict[int, int] = {}
    peak, rises, phase, at = memory.allocated, False, "before", "before"
    timeline, width = [], max(1, -(-len(trace.events) // POINTS))
    highest: Point | None = None
    for moment, event in enumerate(trace.events):
        block = trace.blocks[max(event, ~event)]
        if event >= 0:
            phase = block.phase
            living[event] = memory.take(event, size_of(block))
            kinds[kind_of(block)] += living[event]
            if memory.allocated > peak:
                peak, at, rises = memory.allocated, phase, True
        else:
            if rises:  # nothing was freed since the highest point
                held, rises = dict(living), False
            memory.free(~event)
            kinds[kind_of(block)] -= living.pop(~event, 0)
        if highest is None or memory.allocated > highest.bytes:
            highest = Point(moment, phase, memory.allocated, dict(kinds))
        if moment % width == width - 1:
            timeline.append(highest)
            highest = None
    held = dict(living) if rises else held
    shares = [(trace.blocks[number], size) for number, size in held.items()]
    at_peak = Counter({"workspace": standing})
    for block, size in shares:
        at_peak[kind_of(block)] += size
    return Account(
        peak,
        memory.reserved,
        at,
        _kept(trace, size_of),
        {each: at_peak[each] for each in KINDS if at_peak[each]},
        _by(shares, lambda block: block.module),
        _by([each for each in shares if each[0].line], lambda block: block.line),
        (*timeline, *([highest] if highest else [])),
    )


def kind_of(block: Block) -> str:
    """What is made in a forward pass and outlives it is kept for the backward pass."""
    if block.kind:
        return block.kind
    kept = block.phase == "forward" and block.freed != "forward"
    return "activations" if kept else "temporary"


def _kept(trace: Trace, size_of: Sizes) -> int:
    """What a forward pass has made and not freed, when its backward pass begins."""
    living: dict[int, int] = {}
    phase, found = "", 0
    for event in trace.events:
        if event < 0:
            living.pop(~event, None)
            continue
        block = trace.blocks[event]
        if block.phase == "backward" and phase == "forward":
            found = sum(living.values())
        phase = block.phase
        if phase == "forward" and not block.kind:
            living[event] = size_of(block)
    return found


def _by(blocks: list[tuple[Block, int]], name_of: Callable[[Block], str]) -> tuple[Share, ...]:
    """The largest first."""
    found: dict[str, Counter[str]] = {}
    for block, size in blocks:
        found.setdefault(name_of(block), Counter())[kind_of(block)] += size
    shares = [Share(name, sum(kinds.values()), dict(kinds)) for name, kinds in found.items()]
    return tuple(sorted(shares, key=lambda each: (-each.bytes, each.name)))
