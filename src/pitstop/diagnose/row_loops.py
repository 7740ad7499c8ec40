"""Row loops: Python that walks over a tensor, one row or one number after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.diagnose.operations import by_line, short, tensors

FEWEST_ROWS = 16  # fewer rounds are heads, scales or frames that somebody wrote out
READ = "_local_scalar_dense"  # what `.item()`, `float()` and `if tensor:` run
READERS = (READ, "torch.Tensor.numpy", "torch.Tensor.tolist")  # each takes numbers out of tensors
ROWS = {"select", "unbind", "slice"}
VIEWS = {"detach", "alias", "view", "squeeze", "unsqueeze", "_unsafe_view", "reshape", "t"}


@dataclass(frozen=True, slots=True)
class RowLoop:
    """A loop over the rows of a tensor: where they are taken, how many, and all its lines."""

    where: Line
    rows: int
    lines: tuple[Line, ...]
    reads: bool  # whether it reads a number of each row
    works: bool  # whether it computes something of each row


def row_loops(evidence: Evidence) -> Iterator[RowLoop]:
    """Every loop over rows, seen by the rows taken and the lines that ran once for each.

    Where a loader is read, the rows are the samples of a batch that it takes from a tensor.
    """
    lines = by_line(each for each in evidence.operations if not each.backward)
    seen: set[Line] = {each.used for each in evidence.loaders}
    for line, operations in lines.items():
        rows = rows_taken(operations)
        if rows < FEWEST_ROWS or line in seen:
            continue
        near = [each for each in lines if is_beside(each, line)]
        body = {each: _ran(lines[each], rows) for each in near}
        names = set().union(*body.values())
        inside = tuple(each for each in near if body[each] or each == line)
        seen.update(inside)
        reads, works = not names.isdisjoint(READERS), not names <= {*READERS, *ROWS, *VIEWS}
        yield RowLoop(line, rows, inside, reads, works)


def rows_taken(operations: Iterable[Operation]) -> int:
    """How many rows one call takes from tensors: one by its number, or all that there are."""
    counts: Counter[tuple[str, int]] = Counter()
    for each in operations:
        given = tensors(each)
        if short(each) == "select" and given:
            counts["select", each.call] += each.calls
        elif short(each) == "unbind" and given and given[0].sizes:
            counts["unbind", each.call] += each.calls * given[0].sizes[0]
    return max(counts.values(), default=0)


def is_beside(near: Line, line: Line) -> bool:
    """Whether two lines are in one function, or in it and in a comprehension on the same line."""
    return near.path == line.path and (near.function == line.function or near.line == line.line)


def _ran(operations: Iterable[Operation], rounds: int) -> set[str]:
    """The operations that ran at least so often, whatever their shapes."""
    counts: Counter[str] = Counter()
    for each in operations:
        counts[short(each)] += each.calls
    return {name for name, calls in counts.items() if calls >= rounds}
