"""Kept: memory and graphs that outlive their step by two more, and who keeps them.

By then a loop variable holds something newer, wherever in the loop it is set. A tensor with its
graph keeps all that it was computed from; only the tensor is named, and the rest is counted to it.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pitstop import internals
from pitstop.profile.inspect.origins import Origins
from pitstop.profile.inspect.tensors import storages_in
from pitstop.profile.source.holders import Holder, Holders
from pitstop.profile.source.lines import NOWHERE, Place
from pitstop.profile.source.sources import keeping_line

MOST_LINES = 12  # looked into, those that hold most first: each takes some searches of all objects
MOST_NODES = 200_000  # of a graph; three steps of a large model have fewer


@dataclass(frozen=True, slots=True)
class Trail:
    """What an inspected step made, by which it is known again later."""

    born: dict[int, tuple[Place, int, StorageWeakRef]]
    origins: Origins
    first: int  # number of its first autograd node
    last: int


@dataclass(slots=True)
class _Found:
    """What still lives: of one line, or one tensor that adds up the results of many steps."""

    line: Place
    held_bytes: int = 0
    graph: bool = False
    sums: bool = False
    tensor: Any = None  # one of them that Python can see


def kept(trail: Trail, frame: FrameType) -> list[list[Any]]:
    """Line, bytes, whether a graph, holder and the line that put it there; graphs first."""
    found = sorted(_found(trail), key=lambda each: (not each.graph, -each.held_bytes))
    holders = Holders(frame)
    rows, rest = [], 0
    for each in found[:MOST_LINES]:
        holder = holders.of(each.tensor) if each.tensor is not None else Holder()
        if holder.name or not each.graph:
            at = _kept_at(holder, each.line) if holder.name else NOWHERE
            line = at if each.sums else each.line
            rows.append([line, each.held_bytes, each.graph, holder.name, at])
        else:
            rest += each.held_bytes
    return _with_what_graphs_hold(rows, rest)


def _found(trail: Trail) -> list[_Found]:
    """What still lives, by the line that made it."""
    living = {
        number: (line, size)
        for number, (line, size, memory) in trail.born.items()
        if not memory.expired()
    }
    found: dict[Any, _Found] = {}
    gradients: set[int] = set()
    for tensor, node in _tensors(trail):
        if tensor.is_leaf and tensor.grad is not None:
            gradients.update(internals.storage_key(storage) for storage in storages_in(tensor.grad))
        own = [
            living[internals.storage_key(s)][0]
            for s in storages_in(tensor)
            if internals.storage_key(s) in living
        ]
        reached = _line_of(trail, node)
        line = own[0] if own else reached
        if line is not None:
            each = found.setdefault(line if own else id(tensor), _Found(line, sums=not own))
            each.tensor, each.graph = tensor, each.graph or reached is not None
    for number, (line, size) in living.items():
        if number not in gradients:
            found.setdefault(line, _Found(line)).held_bytes += size
    return [each for each in found.values() if each.held_bytes or each.graph]


def _tensors(trail: Trail) -> Iterator[tuple[torch.Tensor, Any]]:
    """Every living tensor, and the node of the step that its graph reaches back to, if any.

    A node is told once, of the tensor computed first: a sum comes before the mean taken of it.
    """
    living = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    nodes = [(each.grad_fn, each) for each in living]
    nodes.sort(key=lambda each: -1 if each[0] is None else internals.sequence_number(each[0]))
    seen: set[Any] = set()
    for node, tensor in nodes:
        yield tensor, _reached(node, trail, seen) if node is not None else None


def _reached(node: Any, trail: Trail, seen: set[Any]) -> Any:
    """The step's latest node behind this one."""
    waiting, latest = [node], None
    while waiting and len(seen) < MOST_NODES:
        each = waiting.pop()
        number = internals.sequence_number(each)
        if trail.first <= number <= trail.last:
            latest = (
                each if latest is None or number > internals.sequence_number(latest) else latest
            )
        elif number > trail.last and each not in seen:
            seen.add(each)
            waiting += [below for below, _ in each.next_functions if below is not None]
    return latest


def _line_of(trail: Trail, node: Any) -> Place | None:
    origin = trail.origins.of(node) if node is not None else None
    return origin[0] if origin else None


def _kept_at(holder: Holder, line: Place) -> Place:
    """The line that puts the tensor there; where it is made, if that can be told no better."""
    lines = None
    if holder.code is not None:
        numbers = [number for _, _, number in holder.code.co_lines() if number]
        lines = range(holder.code.co_firstlineno, max(numbers) + 1)
    for path in (holder.path, line[0]):  # an attribute may be added to from elsewhere
        found = keeping_line(holder.name, path, line, lines)
        if found != NOWHERE:
            return found
    return line


def _with_what_graphs_hold(rows: list[list[Any]], rest: int) -> list[list[Any]]:
    """Memory that has no name is held by a graph, where one is kept."""
    graphs = [row for row in rows if row[2]]
    if not graphs:
        return rows
    graphs[0][1] += rest + sum(row[1] for row in rows if not row[2] and not row[3])
    return [row for row in rows if row[2] or row[3]]
