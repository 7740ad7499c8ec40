"""Trace: the blocks of memory that some steps made, as plain numbers."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """One piece of memory, and what made it."""

    size: int  # bytes
    phase: str  # "before", "forward", "backward" or "optimizer"
    operation: str = ""
    module: str = ""
    line: str = ""
    kind: str = ""  # where it is known already: "parameters", "gradients", "workspace" ...
    freed: str = ""  # the phase in which it was freed; nothing: it was not


@dataclass(slots=True)
class Trace:
    """All blocks, and the order of their births (number) and deaths (~number)."""

    blocks: list[Block] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
