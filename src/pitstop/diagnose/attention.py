"""Attention: which operations of a module call make, read and write a matrix of scores."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pitstop.core.evidence import NOWHERE, Evidence, Line, ModuleCall, Operation
from pitstop.diagnose.calls import timed
from pitstop.diagnose.operations import short, tensors

PRODUCTS = {"bmm", "baddbmm", "mm", "matmul"}
TORCHS_OWN = "MultiheadAttention"  # writes its scores only where its weights are asked for
WITHIN = {"Softmax", "Dropout"}  # modules that others hand their scores to

Scores = tuple[int, int]  # rows and columns of the matrix


@dataclass(frozen=True, slots=True)
class Written:
    """The operations of a step, each with its microseconds, on the scores of one softmax."""

    where: Line
    kind: str  # of the module whose attention it is
    operations: tuple[tuple[Operation, float], ...]


def attentions(evidence: Evidence) -> list[Written]:
    """Every softmax of the step whose scores are written out, with all that is done to them.

    Products that are too short to be kept one by one are missing from their calls. What another
    call shows to be work on scores is that there too.
    """
    in_call: dict[int, list[Operation]] = defaultdict(list)
    for operation in evidence.operations:
        in_call[home(evidence.calls, operation.call)].append(operation)
    kinds: dict[Line, str] = {}
    shown: dict[int, Line] = {}  # the softmax of each operation in such a call
    alike: dict[tuple[str, Line, Scores], Line] = {}
    for call, operations in in_call.items():
        for line, scores in written_out(operations) if call >= 0 else ():
            kinds.setdefault(line, evidence.calls[call].kind)
            for each in operations:
                if handles(each, scores):
                    shown.setdefault(id(each), line)
                    alike.setdefault((short(each), each.where, scores), line)
    found: dict[Line, list[tuple[Operation, float]]] = {line: [] for line in kinds}
    for each, micros in timed(evidence):
        elsewhere = alike.get((short(each), each.where, _matrix(each)), NOWHERE)
        line = shown.get(id(each), elsewhere)
        if line in found:
            found[line].append((each, micros))
    return [Written(line, kinds[line], tuple(done)) for line, done in found.items()]


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
