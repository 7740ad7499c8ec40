"""Attention: which operations of a module call make, read and write a matrix of scores."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pitstop.core.evidence import (
    DROPOUT,
    LEARNED_BIAS,
    NOWHERE,
    Evidence,
    Line,
    ModuleCall,
    Operation,
)
from pitstop.diagnose.facts.calls import timed
from pitstop.diagnose.facts.operations import short, tensors

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


def comes_with(attention: Written) -> set[str]:
    """What it does to its scores beside the softmax: a bias's gradient is a sum over all heads."""
    done = {(short(each), each.backward) for each, _ in attention.operations}
    signs = {LEARNED_BIAS: ("sum", True), DROPOUT: ("native_dropout", False)}
    return {name for name, sign in signs.items() if sign in done}


def home(calls: Sequence[ModuleCall], position: int) -> int:
    """The module call that an operation belongs to, though a small module of it ran it."""
    if not 0 <= position < len(calls):
        return -1
    call = calls[position]
    return call.parent if call.kind in WITHIN else position


def written_out(operations: Sequence[Operation]) -> Iterator[tuple[Line, Scores]]:
    """Each softmax whose matrix one product makes and another takes.

    Linear attention has those of what no product made, and a later one whose result has that shape.
    """
    made: dict[Scores, list[Line]] = defaultdict(list)
    taken: dict[Scores, list[Line]] = defaultdict(list)
    forward = [each for each in operations if not each.backward]
    for each in forward:
        given = tensors(each)[-2:] if short(each) in PRODUCTS else ()
        if len(given) > 1 and len(given[0].sizes) > 1 and given[1].sizes:
            rows, columns = given[0].sizes[-2:]
            made[rows, given[1].sizes[-1]].append(each.where)
            taken[rows, columns].append(each.where)
    seen = set()
    for each in forward:
        at, scores = each.where, _matrix(each)
        if short(each) == "_softmax" and (at, scores) not in seen:
            makers = (line for line in made[scores] if not _after(line, at))
            takers = (line for line in taken[scores] if not _after(at, line))
            if any(makers) and any(takers):
                seen.add((at, scores))
                yield at, scores


def _after(line: Line, other: Line) -> bool:
    """Whether it is further down in the same function."""
    return (line.path, line.function) == (other.path, other.function) and line.line > other.line


def _matrix(operation: Operation) -> Scores:
    given = tensors(operation)
    sizes = given[0].sizes if given else ()
    return (sizes[-2], sizes[-1]) if len(sizes) > 1 else (0, 0)


def handles(operation: Operation, scores: Scores) -> bool:
    """Whether the operation reads or writes the matrix of scores, and is no product."""
    return short(operation) not in PRODUCTS and _matrix(operation) == scores
