"""Account: play a trace to its peak, and say who holds what in that moment."""

from collections import Counter
from dataclasses import dataclass

from pitstop.parts.memory.allocator import CachingAllocator, PlainMemory
from pitstop.parts.memory.watch import Block, Trace

MOST_POINTS = 2000  # of a timeline: more than a picture has columns
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


@dataclass(frozen=True, slots=True)
class Share:
    """What one module, or one line, holds at the peak."""

    name: str
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
    timeline: tuple[tuple[int, int], ...]  # operation, bytes in use
    marks: tuple[tuple[int, str], ...]  # operation, what begins


def account_of(trace: Trace, rounded: bool, standing_bytes: tuple[int, ...] = ()) -> Account:
    """Play the trace; ``standing_bytes``: blocks of libraries that are there all the time."""
    memory = CachingAllocator() if rounded else PlainMemory()
    standing = sum(memory.take(~number, size) for number, size in enumerate(standing_bytes))
    living: dict[int, int] = {}
    held: dict[int, int] = {}
    peak, at, rises = memory.allocated, 0, False
    timeline = []
    for moment, event in enumerate(trace.events):
        if event >= 0:
            living[event] = memory.take(event, trace.blocks[event].size)
            if memory.allocated > peak:
                peak, at, rises = memory.allocated, moment, True
        else:
            if rises:  # nothing was freed since the highest point
                held, rises = dict(living), False
            memory.free(~event)
            living.pop(~event, None)
        timeline.append((moment, memory.allocated))
    shares = _held(trace, dict(living) if rises else held)
    kinds = Counter({"workspace": standing})
    for _, kind, size in shares:
        kinds[kind] += size
    return Account(
        peak,
        memory.reserved,
        _phase(trace, at),
        _kept(trace),
        {each: kinds[each] for each in KINDS if kinds[each]},
        _by(shares, "module"),
        _by([each for each in shares if each[0].line], "line"),
        _thinned(timeline),
        tuple(trace.marks),
    )


Held = tuple[Block, str, int]  # a block, its kind, and the bytes it takes


def _held(trace: Trace, sizes: dict[int, int]) -> list[Held]:
    freed_in = _freed_in(trace)
    return [
        (trace.blocks[each], _kind(trace.blocks[each], freed_in.get(each)), size)
        for each, size in sizes.items()
    ]


def _kept(trace: Trace) -> int:
    """What a forward pass has made and not freed."""
    begun = [moment for moment, name in trace.marks if name == "backward"]
    living = set()
    for event in trace.events[: begun[-1]] if begun else ():
        if event >= 0:
            living.add(event)
        else:
            living.discard(~event)
    blocks = [trace.blocks[each] for each in living]
    return sum(each.size for each in blocks if each.phase == "forward" and not each.kind)


def _freed_in(trace: Trace) -> dict[int, str]:
    """Block -> the mark under which it was freed."""
    marks = iter([*trace.marks, (len(trace.events) + 1, "")])
    found: dict[int, str] = {}
    name, (begins, following) = "", next(marks)
    for moment, event in enumerate(trace.events):
        while moment >= begins:
            name, (begins, following) = following, next(marks)
        if event < 0:
            found[~event] = name
    return found


def _kind(block: Block, freed_in: str | None) -> str:
    """What is made in a forward pass and outlives it is kept for the backward pass."""
    if block.kind:
        return block.kind
    kept = block.phase == "forward" and freed_in not in {"forward", "step 1", "step 2"}
    return "activations" if kept else "temporary"


def _phase(trace: Trace, at: int) -> str:
    return next((name for moment, name in reversed(trace.marks) if moment <= at), "before")


def _by(blocks: list[Held], what: str) -> tuple[Share, ...]:
    """The largest first."""
    found: dict[str, Counter[str]] = {}
    for block, kind, size in blocks:
        found.setdefault(getattr(block, what), Counter())[kind] += size
    shares = [Share(name, sum(kinds.values()), dict(kinds)) for name, kinds in found.items()]
    return tuple(sorted(shares, key=lambda each: (-each.bytes, each.name)))


def _thinned(timeline: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """At most so many points; of those that go the highest stays."""
    if len(timeline) <= MOST_POINTS:
        return tuple(timeline)
    width = -(-len(timeline) // MOST_POINTS)
    spans = (timeline[begin : begin + width] for begin in range(0, len(timeline), width))
    return tuple(max(span, key=lambda point: point[1]) for span in spans)
