"""Row loops: Python that walks over a tensor, one row or one number after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pitstop.core.evidence import Evidence, Line, Operation
from pitstop.diagnose.facts.operations import by_line, short, tensors

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
    """How many rows one walk takes from a tensor: one by its number, or all that there are.

    A walk ends with its tensor, however often the line begins another. What was summed over
    module calls is nobody's walk.
    """
    most, chosen, longest = 0, Counter[int](), Counter[int]()
    for each in operations:
        given = tensors(each)
        if each.summed or not given or not given[0].sizes:
            continue
        if short(each) == "select":
            chosen[each.call] += each.calls
            longest[each.call] = max(longest[each.call], *given[0].sizes)
        elif short(each) == "unbind":
            most = max(most, given[0].sizes[0])
    return max([most, *(min(calls, longest[call]) for call, calls in chosen.items())])


def is_beside(near: Line, line: Line) -> bool:
    """Whether two lines are in one function, or in it and in a comprehension on the same line."""
    return near.path == line.path and (near.function == line.function or near.line == line.line)


def _ran(operations: Iterable[Operation], rounds: int) -> set[str]:
    """The operations that ran at least so often, whatever their shapes."""
    counts: Counter[str] = Counter()
    for each in operations:
        counts[short(each)] += 0 if each.summed else each.calls
    return {name for name, calls in counts.items() if calls >= rounds}
