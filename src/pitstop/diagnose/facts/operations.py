"""Operations: what a recorded operation is called, what it worked on, and which a line ran."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pitstop.core.evidence import Line, Operation

EMPTYING = "torch.cuda.empty_cache"  # as it is recorded, though it is no operation
UNTIED = "kernels of no known operation"  # what a ledger calls them
TENSOR = re.compile(r"(\w+)\[([\d,]*)\]@(\w+)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor that went into an operation."""

    kind: str  # "float32"
    sizes: tuple[int, ...]
    device: str


def short(operation: Operation) -> str:
    """``aten.convolution_backward.default`` as people say it; other calls keep their names."""
    name = operation.name
    return name.split(".")[1] if name.startswith("aten.") else name


def tensors(operation: Operation) -> tuple[Tensor, ...]:
    """What the operation was given."""
    return _parsed(operation.shapes)


@lru_cache(maxsize=8192)  # thousands of operations share some hundred shapes, and rules ask often
def _parsed(shapes: str) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(kind, tuple(int(size) for size in sizes.split(",") if size), device)
        for kind, sizes, device in TENSOR.findall(shapes)
    )


def by_line(operations: Iterable[Operation]) -> dict[Line, list[Operation]]:
    """The operations of each known line, in the order in which the lines were met."""
    lines: dict[Line, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.where.path:
            lines[operation.where].append(operation)
    return dict(lines)
