"""Wanted: which calls of the recorded step nobody needs, and how a running script knows them.

A call is known by the module's class, the user's lines that it is made from and its number among
those alike; so is the call around it, up to the script's own. Nothing here needs torch.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pitstop.core.evidence import Evidence, Line, ModuleCall
from pitstop.diagnose.facts.calls import CallTree, call_tree, lines_of, stretch
from pitstop.diagnose.told.place import label
from pitstop.tune.plan import Options

Why = Literal["unused", "zero"]
Lines = tuple[tuple[str, int], ...]  # file and line, innermost first
Known = tuple[tuple[str, Lines, int], ...]  # class, lines and number; of the outermost call first

CALLS = "_calls"  # the option that names them; it is for the process and not for people
WORTH_A_TRIAL = 0.005  # of the step: less does not show beyond the noise of any machine
MOST = 8  # places that are tried; the largest come first
MOST_CALLS = 400  # of one place: all of them travel to the script's process


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Calls that serve nobody, why, and where a finding says so."""

    at: Line
    end: Line  # the line that makes their result useless, such as a product with zero
    why: Why
    share: float  # of the step that they take, backward pass included
    calls: tuple[int, ...]  # by position; of calls in calls, the outermost

    @property
    def name(self) -> str:
        """The place as people read it: ``loss.py:96``."""
        return label(self.at)


def left_out(evidence: Evidence) -> list[LeftOut]:
    """What nobody needs, by the place of its finding; the largest first."""
    if evidence.step_kind != "optimizer" or evidence.compiled:
        return []  # without losses twins see no step, and what is compiled is one call
    tree = call_tree(evidence)
    found = [each for each in (*_zeroed(tree, evidence), *_unused(tree)) if each.at.path]
    worth = [each for each in found if each.share >= WORTH_A_TRIAL]
    few = [each for each in worth if len(each.calls) <= MOST_CALLS]
    return sorted(few, key=lambda each: -each.share)[:MOST]


def options(evidence: Evidence) -> Iterator[Options]:
    """The same as options of the change, one set for each place."""
    known = _known(evidence.calls)
    for each in left_out(evidence):
        calls = json.dumps([known[place] for place in each.calls], separators=(",", ":"))
        yield {"at": each.name, "why": each.why, CALLS: calls}


def read_calls(text: str) -> set[Known]:
    """The calls that ``options`` wrote."""
    return {
        tuple(
            (kind, tuple((path, line) for path, line in lines), number)
            for kind, lines, number in known
        )
        for known in json.loads(text)
    }


def _unused(tree: CallTree) -> Iterator[LeftOut]:
    unused = [position for position, call in enumerate(tree.calls) if call.unused]
    by_line: dict[Line, list[int]] = defaultdict(list)
    for position in tree.outermost(unused):
        by_line[tree.calls[position].where].append(position)
    for line, positions in by_line.items():
        yield LeftOut(line, line, "unused", _share(tree, positions), tuple(positions))


def _zeroed(tree: CallTree, evidence: Evidence) -> Iterator[LeftOut]:
    for zeroed in evidence.zeroed:
        known = [position for position in zeroed.calls if 0 <= position < len(tree.calls)]
        positions = [each for each in tree.outermost(known) if not tree.calls[each].recomputed]
        span = stretch((zeroed.where, *lines_of(tree, positions)))
        at = Line(span.path, span.line, zeroed.where.function) if span else zeroed.where
        if positions:
            yield LeftOut(at, zeroed.where, "zero", _share(tree, positions), tuple(positions))


def _share(tree: CallTree, positions: Iterable[int]) -> float:
    micros = sum(tree.micros[position] for position in positions)
    return micros / tree.all_micros if tree.all_micros else 0.0


def _known(calls: tuple[ModuleCall, ...]) -> list[Known]:
    """How each call is known, in their order; a caller comes before its callees."""
    counts: Counter[tuple[Known, str, Lines]] = Counter()
    found: list[Known] = []
    for call in calls:
        above = found[call.parent] if call.parent >= 0 else ()
        lines = tuple((each.path, each.line) for each in (call.where, *call.through))
        number = counts[above, call.kind, lines]
        if not call.recomputed:
            counts[above, call.kind, lines] += 1
        found.append((*above, (call.kind, lines, number)))
    return found
