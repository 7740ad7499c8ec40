"""Branches: the dearest part of the module tree in a few lines, equal blocks taken as one."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pitstop.core.evidence import Evidence
from pitstop.core.units import percent
from pitstop.report.module_tree import Node, module_tree

MOST_LINES = 9  # of a screen that has more to show
WORTH_A_LINE = 0.05  # of the model's work
MOST_ALIKE = 3  # blocks of one name but for their number; more of them are one line: blocks.*
NUMBER = re.compile(r"\d+")
TITLE, SHARE = "inside the model", "share of its work"
SHIFT = "  "  # to the right, for each module around it


@dataclass(slots=True)
class Branch:
    """One module, or all blocks that are alike, with what ran inside."""

    name: str
    ms: float
    below: list["Branch"] = field(default_factory=list)


def tree_lines(evidence: Evidence) -> list[str]:
    """The modules that the work goes to, each below the one that calls it; empty for one alone."""
    tops = _alike(_nested(module_tree(evidence)))
    whole_ms = sum(each.ms for each in tops)
    shown = _dearest(tops, WORTH_A_LINE * whole_ms)
    rows = [(SHIFT * depth + each.name, each.ms) for depth, each in _walk(tops, shown)]
    if len(rows) < 2:
        return []
    wide = max(len(name) for name, _ in [*rows, (TITLE, 0.0)])
    lines = (f"{name:<{wide}}  {percent(ms / whole_ms):>{len(SHARE)}}" for name, ms in rows)
    return [f"{TITLE:<{wide}}  {SHARE}", *lines]


def _nested(nodes: Iterable[Node]) -> list[Branch]:
    """The modules that nobody called, with what they called; a name begins below its caller's."""
    tops: list[Branch] = []
    above: list[tuple[str, list[Branch]]] = [("", tops)]
    for node in nodes:
        del above[node.depth + 1 :]
        around, beside = above[-1]
        branch = Branch(node.path.removeprefix(f"{around}."), node.ms)
        beside.append(branch)
        above.append((node.path, branch.below))
    return tops


def _alike(branches: list[Branch]) -> list[Branch]:
    """The same, with many blocks that differ in their number only as one."""
    groups: dict[str, list[Branch]] = {}
    for each in branches:
        groups.setdefault(NUMBER.sub("*", each.name), []).append(each)
    found = []
    for name, group in groups.items():
        if len(group) > MOST_ALIKE:
            below = [inner for each in group for inner in each.below]
            found.append(Branch(f"{name} ({len(group)})", sum(each.ms for each in group), below))
        else:
            found += group
    for each in found:
        each.below = _alike(_summed(each.below))
    return found


def _summed(branches: list[Branch]) -> list[Branch]:
    """Those of one name as one: the parts of blocks that are alike."""
    found: dict[str, Branch] = {}
    for each in branches:
        one = found.setdefault(each.name, Branch(each.name, 0.0))
        one.ms += each.ms
        one.below += each.below
    return list(found.values())


def _dearest(tops: list[Branch], least_ms: float) -> set[int]:
    """Which branches are shown, by id: the dearest is opened until there are lines enough."""
    shown = {id(each) for each in tops if each.ms >= least_ms}
    closed = [each for each in tops if id(each) in shown]
    while closed and len(shown) < MOST_LINES:
        dearest = max(closed, key=lambda each: each.ms)
        closed.remove(dearest)
        inner = [each for each in dearest.below if each.ms >= least_ms]
        inner = sorted(inner, key=lambda each: -each.ms)[: MOST_LINES - len(shown)]
        shown.update(map(id, inner))
        closed += inner
    return shown


def _walk(branches: list[Branch], shown: set[int], depth: int = 0) -> Iterator[tuple[int, Branch]]:
    """Those that are shown, in the order they ran, with how deep they lie."""
    for each in branches:
        if id(each) in shown:
            yield depth, each
            yield from _walk(each.below, shown, depth + 1)
