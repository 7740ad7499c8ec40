"""Graph: what autograd remembers of a forward pass, as a list of operations in their order.

A node knows its operation and often the tensors that went in or came out, but no line. The lines
come from an inspected step, which saw every operation: two graphs of the same script are laid
side by side, and equal operations at equal places have equal lines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.forensics.packed import unpacked

MOST_NODES = 50_000  # a model of a thousand layers has a tenth of it; more would take seconds
MOST_COMPARED = 2_000  # operations that differ between two graphs; beyond, only the ends are laid
NO_NUMBER = 2**63  # of leaves, which no operation made

Place = tuple[str, int, str, str]  # path, line, function and module
NOWHERE: Place = ("", 0, "", "")


@dataclass(frozen=True, slots=True)
class Reference:
    """The operations of an inspected forward pass, in order, and where each was called."""

    names: tuple[str, ...]
    places: tuple[Place, ...]


def nodes_of(root: Any) -> list[Any]:
    """All nodes behind a tensor, in the order in which their operations ran; leaves left out."""
    waiting, seen = [root.grad_fn], {root.grad_fn}
    while waiting and len(seen) < MOST_NODES:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return sorted((node for node in seen if not _is_leaf(node)), key=number_of)


def number_of(node: Any) -> int:
    """When the node's operation ran, as a count of all operations of the process."""
    return int(internals.sequence_number(node))


def leaves_of(nodes: Sequence[Any]) -> Iterator[Any]:
    """The parameters, and other tensors that ask for a gradient, that the nodes start from."""
    seen = {node for each in nodes for node, _ in each.next_functions if node is not None}
    for node in seen:
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            yield variable


def saved(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a node keeps for its backward pass, by name: ``self``, ``result``.

    One that is packed by a hook is left alone: to unpack it may mean to compute it again.
    """
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            short = name.removeprefix("_raw_saved_")
            try:
                value = unpacked(node, short)
                if isinstance(value, torch.Tensor):
                    yield short, value
            except (AttributeError, RuntimeError):  # freed, or written to since
                continue


def reference(root: Any, place_of: Callable[[Any], Place]) -> Reference:
    """The graph behind a tensor of an inspected step, with the places that were seen."""
    nodes = nodes_of(root)
    return Reference(tuple(node.name() for node in nodes), tuple(map(place_of, nodes)))


def place(names: Sequence[str], index: int, references: Sequence[Reference]) -> Place:
    """Where the operation at ``index`` is called, by the most similar graph that was inspected."""
    names = tuple(names)
    for each in references:
        if each.names == names:
            return each.places[index]
    for each in sorted(references, key=lambda each: abs(len(each.names) - len(names))):
        found = _counterpart(names, index, each.names)
        if found is not None:
            return each.places[found]
    return NOWHERE


def _counterpart(names: Sequence[str], index: int, others: Sequence[str]) -> int | None:
    """The place in ``others`` that corresponds to ``index`` in ``names``."""
    head = 0
    while head < min(len(names), len(others)) and names[head] == others[head]:
        head += 1
    if index < head:
        return index
    tail = 0
    while tail < min(len(names), len(others)) - head and names[~tail] == others[~tail]:
        tail += 1
    if len(names) - index <= tail:
        return len(others) - len(names) + index
    left, right = names[head : len(names) - tail], others[head : len(others) - tail]
    if len(left) + len(right) > MOST_COMPARED:
        return None
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        if block.a <= index - head < block.a + block.size:
            return head + block.b + index - head - block.a
    return None


def _is_leaf(node: Any) -> bool:
    return number_of(node) >= NO_NUMBER
