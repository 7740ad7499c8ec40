"""Attention: which operations of a module call make, read and write a matrix of scores."""

from collections.abc import Iterator, Sequence

from pitstop.core.evidence import Line, ModuleCall, Operation
from pitstop.diagnose.operations import short, tensors

PRODUCTS = {"bmm", "baddbmm", "mm", "matmul"}
WITHIN = {"Softmax", "Dropout"}  # modules that others hand their scores to

Scores = tuple[int, int]  # rows and columns of the matrix


def home(calls: Sequence[ModuleCall], position: int) -> int:
    """The module call that an operation belongs to, though a small module of it ran it."""
    if not 0 <= position < len(calls):
        return -1
    call = calls[position]
    return call.parent if call.kind in WITHIN else position


def written_out(operations: Sequence[Operation]) -> Iterator[tuple[Line, Scores]]:
    """Each softmax whose matrix one product makes and another takes."""
    products = [tensors(each) for each in operations if short(each) in PRODUCTS]
    pairs = [(each[-2].sizes, each[-1].sizes) for each in products if len(each) > 1]
    pairs = [(left, right) for left, right in pairs if len(left) > 1 and right]
    made = {(left[-2], right[-1]) for left, right in pairs}
    taken = {(left[-2], left[-1]) for left, _ in pairs}
    seen = set()
    for each in operations:
        if short(each) == "_softmax" and not each.backward:
            scores = _matrix(each)
            if scores in made & taken and (each.where, scores) not in seen:
                seen.add((each.where, scores))
                yield each.where, scores


def _matrix(operation: Operation) -> Scores:
    given = tensors(operation)
    sizes = given[0].sizes if given else ()
    return (sizes[-2], sizes[-1]) if len(sizes) > 1 else (0, 0)


def handles(operation: Operation, scores: Scores) -> bool:
    """Whether the operation reads or writes the matrix of scores, and is no product."""
    return short(operation) not in PRODUCTS and _matrix(operation) == scores
