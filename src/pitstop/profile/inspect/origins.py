"""Origins: the line and module call behind each operation, in backward passes too.

Autograd numbers its nodes in the order in which a thread makes them. An operation that is seen
right after a new number was given out is the one that made that node; when the node runs in a
backward pass, what it does belongs to the same line and call.
"""

from threading import get_ident
from types import FrameType
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.inspect.calls import Calls
from pitstop.profile.source.lines import ENGINE, NOWHERE, Place, runs_backward, user_line

LEAF = "torch::autograd::AccumulateGrad"  # the node that adds to a parameter's gradient


class Origins:
    """Who made which node of the graph in one step."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._thread = get_ident()
        self._made: dict[tuple[int, int], tuple[Place, int]] = {}
        self.first = next_number()  # of the step's nodes
        self.latest = -1  # the node of the current operation, if it made one

    def current(self, frame: FrameType) -> tuple[Place, int, bool]:
        """Line and module call of the operation that runs now, and whether it is backward.

        A forward pass that is done again for a backward one, as checkpointing does, is none.
        """
        inside = in_backward()
        line, call = self._backward(frame) if inside else (user_line(frame), self._calls.current)
        made = get_ident(), next_number() - 1
        self.latest = -1 if made in self._made else made[1]
        self._made.setdefault(made, (line, call))
        return line, call, inside and not self._recomputes(frame)

    def of(self, node: Any) -> tuple[Place, int] | None:
        """Line and call of a node that the recorded thread made in this step."""
        return self._made.get((self._thread, internals.sequence_number(node)))

    def _backward(self, frame: FrameType) -> tuple[Place, int]:
        """Python inside the pass speaks for itself: a recomputed forward, a written backward."""
        node = internals.running_node()
        own = get_ident() == self._thread or runs_backward(frame)
        thread = get_ident() if own else self._thread
        number = internals.sequence_number(node) if node is not None else -1
        origin, call = self._made.get((thread, number), (NOWHERE, self._calls.current))
        if self._calls.recomputing:
            call = self._calls.current
        for line in (user_line(frame, until=ENGINE), origin):
            if line != NOWHERE:
                return line, call
        return user_line(frame), call

    def _recomputes(self, frame: FrameType) -> bool:
        """Whether the user's own Python runs in the pass and makes a graph, as only a forward does.

        A module call in a pass is one, whether or not it makes a graph.
        """
        if self._calls.recomputing:
            return True
        return torch.is_grad_enabled() and user_line(frame, until=ENGINE) != NOWHERE


def next_number() -> int:
    """The number that autograd will give to the next node of this thread."""
    return int(internals.next_sequence_number())


def in_backward() -> bool:
    """Whether this thread runs inside a backward pass."""
    return internals.backward_pass() != -1


def accumulated() -> Any:
    """The parameter whose gradient the current operation adds to, if it does."""
    node: Any = internals.running_node()
    return node.variable if node is not None and node.name() == LEAF else None
