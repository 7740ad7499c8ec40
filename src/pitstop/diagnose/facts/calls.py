"""Calls: the tree of module calls in an inspected step, what each cost, and which repeat."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pitstop.core.evidence import Evidence, Line, ModuleCall, Operation
from pitstop.core.finding import Span
from pitstop.core.ledger import BUSY, Ledger
from pitstop.diagnose.facts.operations import UNTIED
from pitstop.diagnose.told.place import label

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a whole part of a path: ``blocks.3.norm``
LONGEST_FUNCTION = 100  # lines; older recordings have no classes, and all functions are `forward`
DIGITS = re.compile(r"(\d+)")
LOSS_SHAPES = ("[]@", "[1]@")  # what a backward pass starts from: one number


@dataclass(frozen=True)
class CallTree:
    """The module calls of an inspected step by position; a call comes before those it makes."""

    calls: tuple[ModuleCall, ...]
    own_micros: tuple[float, ...]  # forward and backward, on the device where there is one
    own_backward_micros: tuple[float, ...]
    own_flops: tuple[float, ...]
    all_micros: float  # of every operation of the step, in a module call or not

    @cached_property
    def micros(self) -> tuple[float, ...]:
        """The time of each call with all the calls it makes."""
        return self._with_children(self.own_micros)

    @cached_property
    def backward_micros(self) -> tuple[float, ...]:
        """The part of that in backward passes."""
        return self._with_children(self.own_backward_micros)

    @cached_property
    def flops(self) -> tuple[float, ...]:
        """Floating-point operations of each call with all the calls it makes."""
        return self._with_children(self.own_flops)

    def _with_children(self, own: tuple[float, ...]) -> tuple[float, ...]:
        totals = list(own)
        for position in reversed(range(len(self.calls))):
            parent = self.calls[position].parent
            if parent >= 0:
                totals[parent] += totals[position]
        return tuple(totals)

    def above(self, position: int) -> Iterator[int]:
        """The calls around a call, innermost first."""
        while (position := self.calls[position].parent) >= 0:
            yield position

    def outermost(self, chosen: Collection[int]) -> list[int]:
        """Of these calls, those that none of the others made."""
        within = set(chosen)
        return [each for each in sorted(within) if within.isdisjoint(self.above(each))]

    def below(self, position: int) -> Iterator[ModuleCall]:
        """A call and all the calls it makes."""
        for each, call in enumerate(self.calls):
            if each == position or position in self.above(each):
                yield call

    def ms(self, micros: float, ledger: Ledger) -> float:
        """Time of the inspected step as time of the undisturbed one, whose device is busy so."""
        busy = sum(row.ms for row in ledger.rows if row.cause in BUSY and row.what != UNTIED)
        return micros / self.all_micros * busy if self.all_micros else 0.0


def call_tree(evidence: Evidence) -> CallTree:
    """The calls of the inspected step with the time of the operations in each."""
    count = len(evidence.calls)
    own, backward, flops, everything = [0.0] * count, [0.0] * count, [0.0] * count, 0.0
    for each, micros in timed(evidence):
        everything += micros
        if 0 <= each.call < count:
            own[each.call] += micros
            backward[each.call] += micros if each.backward else 0.0
            flops[each.call] += each.flops
    return CallTree(evidence.calls, tuple(own), tuple(backward), tuple(flops), everything)


def timed(evidence: Evidence) -> list[tuple[Operation, float]]:
    """Each operation with its microseconds on the device, which on a CPU is the thread itself.

    What the thread does to put a batch together is part of the wait for it.
    """
    operations = evidence.operations
    if any(each.device_micros is not None for each in operations):
        return [(each, each.device_micros or 0.0) for each in operations]
    return [(each, each.micros) for each in operations if each.phase != "wait"]


def backward_passes(evidence: Evidence) -> int:
    """How many backward passes the step began: each from the gradient of one number, a one."""
    return sum(
        each.calls
        for each in evidence.operations
        if each.name == "aten.ones_like.default" and any(s in each.shapes for s in LOSS_SHAPES)
    )


def repeats(evidence: Evidence, tree: CallTree) -> list[tuple[int, ...]]:
    """Calls of one module that one batched call could replace, by position; outermost groups only.

    They are made from the same call around them, on equal shapes, with the same weights: no
    optimizer steps between them. None needs the result of another. What one line calls for several
    backward passes are the batches of an accumulated step, and no repeats.
    """
    zeroed = {position for each in evidence.zeroed for position in each.calls}
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for position, call in enumerate(evidence.calls):
        idle = call.recomputed or call.unused or position in zeroed
        if not idle and not call.chained and call.parameters:
            module = (call.parent, call.path, call.kind, call.parameters)
            mode = (call.shapes, call.frozen, call.training, call.graph, call.interval)
            alike[*module, *mode].append(position)
    passes = backward_passes(evidence)
    groups = [
        group
        for positions in alike.values()
        for group in _stackable(tree, positions, passes)
        if len(group) > 1
    ]
    members = {position for group in groups for position in group}
    return [tuple(group) for group in groups if members.isdisjoint(tree.above(group[0]))]


def _stackable(tree: CallTree, positions: list[int], passes: int) -> list[list[int]]:
    """Calls that one backward pass needs, or that several lines make for one pass each."""
    calls = [tree.calls[position] for position in positions]
    if calls[0].parent >= 0:
        return [positions]
    if passes > 1 and not any(call.passes for call in tree.calls):
        return []  # recorded by an older release: nobody knows which pass needs which
    needed: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for position, call in zip(positions, calls, strict=True):
        needed[call.passes].append(position)
    lines = {tree.calls[group[0]].where for group in needed.values()}
    alone = all(len(group) == 1 for group in needed.values())
    if alone and len(lines) == len(positions):
        return [positions]  # a critic's real and made-up pictures, each with a pass of its own
    return list(needed.values())


def lines_of(tree: CallTree, positions: Iterable[int]) -> tuple[Line, ...]:
    """The lines that calls are made from, each once, in the order of the calls."""
    return tuple(dict.fromkeys(tree.calls[each].where for each in positions))


def calling_lines(tree: CallTree, group: Sequence[int]) -> tuple[Line, ...]:
    """The lines that tell the calls of a group apart, in the order of the source.

    Calls from one line of a function that itself is called from several lines are told by those;
    a line that makes several of the calls in a loop is that line.
    """
    chains = [(tree.calls[each].where, *tree.calls[each].through) for each in group]
    if len(set(chains)) == len(chains):
        for level in zip(*chains, strict=False):
            if len(set(level)) == len(level):
                return tuple(sorted(level, key=lambda line: (line.path, line.line)))
    return lines_of(tree, group)


def stretch(lines: Iterable[Line]) -> Span | None:
    """The place of several lines: from the first to the last of those in the first's function."""
    known = [each for each in lines if each.path]
    if not known:
        return None
    first = known[0]
    inside = [each for each in known if (each.path, each.function) == (first.path, first.function)]
    numbers = [each.line for each in inside if abs(each.line - first.line) <= LONGEST_FUNCTION]
    return Span(first.path, min(numbers), 1, max(numbers), 1)


def labels(lines: Iterable[Line]) -> str:
    """Lines as a sentence names them: ``model.py:86, 87, loss.py:12``."""
    words, file = [], ""
    for line in lines:
        words.append(str(line.line) if line.path == file else label(line))
        file = line.path
    return ", ".join(words)


def starred(path: str) -> str:
    """A module's path without its numbers: ``stages.*.align``."""
    return NUMBER.sub("*", path)


def pattern(paths: Iterable[str]) -> str:
    """One name for modules that differ in their numbers only."""
    names = sorted(set(paths))
    parts = [DIGITS.split(name) for name in names]
    if len({tuple(each[::2]) for each in parts}) > 1:
        return starred(names[0])  # they differ in more than that
    columns = (set(column) for column in zip(*parts, strict=True))
    return "".join(column.pop() if len(column) == 1 else "*" for column in columns)
