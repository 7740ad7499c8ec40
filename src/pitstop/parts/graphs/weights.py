"""Weights: whether a model is still the one that was captured, in all that a graph froze.

A graph reads weights at their addresses and has made every choice of the Python code for good. So
before each replay all attributes of all modules are compared: the same objects, classes, children,
hooks, addresses. What was seen is kept alive; a new tensor can never come to lie at an old address.
A model of 900 modules takes about half a millisecond of CPU, during which the GPU still works.
"""

from collections.abc import Iterable
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import nn

from pitstop.parts.graphs.reasons import Reason

CONTAINERS = (dict, list, set, tuple)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
VALUES = (bool, int, float, str)  # equal ones are the same, wherever they lie


class State:
    """A model at one moment."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = list(model.modules())
        self.spaces = [vars(each) for each in self.modules]
        self.kinds = list(map(type, self.modules))
        self.values = _attributes(self.spaces)
        inner = [each for each in self.values if isinstance(each, CONTAINERS)]
        self.empty = [each for each in inner if not each]
        self.full = [each for each in inner if each]
        self.contents = _contents(self.full)
        self.tensors = [*model.parameters(), *model.buffers()]
        self.addresses = _addresses(self.tensors)
        self.learning = _learning(self.tensors)
        self.kept = [each.detach() for each in self.tensors]  # no other tensor comes to lie there
        self.hooked = any(space.get(name) for space in self.spaces for name in HOOKS)

    def lies_here(self) -> bool:
        """Whether all weights are where they were."""
        return _addresses(self.tensors) == self.addresses

    def holds(self) -> bool:
        """Whether nothing has changed."""
        return (
            not any(self.empty)
            and list(map(type, self.modules)) == self.kinds
            and _same(_attributes(self.spaces), self.values)
            and _same(_contents(self.full), self.contents)
            and self.lies_here()
            and _learning(self.tensors) == self.learning
        )

    def device(self) -> torch.device | None:
        """The one device of all weights."""
        found = {each.device for each in self.tensors}
        return found.pop() if len(found) == 1 else None


class States:
    """The few states in which a model is met: in training and in evaluation, say."""

    MOST = 4  # kept at a time; the oldest goes
    RESTLESS = 6  # new ones in a row without a replay: the model is never the same

    def __init__(self, model: nn.Module, come_back: bool = False) -> None:
        self._model = model
        self._come_back = come_back  # weights that lie elsewhere now will lie here again
        self._known: list[tuple[int, State]] = []
        self._made = 0
        self._unused = 0

    def now(self) -> tuple[int, State]:
        """The number of the present state, and the state."""
        for place, (number, state) in enumerate(self._known):
            if state.holds():
                self._known.append(self._known.pop(place))
                return number, state
        self._made += 1
        self._unused += 1
        there = [each for each in self._known if self._come_back or each[1].lies_here()]
        self._known = [*there[1 - self.MOST :], (self._made, State(self._model))]
        return self._known[-1]

    def numbers(self) -> set[int]:
        """Of all that are known: graphs of others are of no use any more."""
        return {number for number, _ in self._known}

    def replayed(self) -> None:
        """The present state was of use."""
        self._unused = 0

    @property
    def restless(self) -> Reason | None:
        """A reason where states change too often to be worth a graph."""
        return Reason.CHANGES_ITSELF if self._unused > self.RESTLESS else None


def _attributes(spaces: Iterable[dict[str, Any]]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, spaces)))


def _contents(containers: Iterable[Any]) -> list[Any]:
    return list(
        chain.from_iterable(
            each.values() if isinstance(each, dict) else each for each in containers
        )
    )


def _same(found: list[Any], known: list[Any]) -> bool:
    if len(found) != len(known):
        return False
    return all(map(is_, found, known)) or all(map(_alike, found, known))


def _alike(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in VALUES and one == other)


def _addresses(tensors: list[torch.Tensor]) -> list[int]:
    return list(map(torch.Tensor.data_ptr, tensors))


def _learning(tensors: list[torch.Tensor]) -> list[bool]:
    return [each.requires_grad for each in tensors]
