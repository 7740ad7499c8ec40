"""Gradients: which parameters get one in a step, and which of those nothing ever uses.

A gradient is used when an optimizer that holds its parameter steps, or when the script takes it
elsewhere. It is thrown away when it is gone or zeroed before that, or when it came after its
optimizer's last step.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import torch

from pitstop import internals
from pitstop.profile.inspect.tensors import storages_in
from pitstop.profile.inspect.tree import Tree
from pitstop.profile.source.lines import Place

ZEROING = {"aten::zero_", "aten::_foreach_zero_", "aten::fill_"}


class Discarded(NamedTuple):
    """Gradients that were computed for nothing."""

    line: Place  # where their backward passes came to them
    parameters: set[int]  # by id
    calls: dict[int, int]  # the outermost of their modules' calls, and how many passes it was in


class Gradients:
    """What became of each gradient of one step."""

    def __init__(self, optimizers: list[Any]) -> None:
        self.owned = {id(each) for optimizer in optimizers for each in held_by(optimizer)}
        self._parameters: dict[int, torch.Tensor] = {}
        self._pending: dict[int, set[int]] = {}  # backward passes behind a gradient not yet used
        self._memory: dict[int, int] = {}  # the parameter behind a gradient's memory
        self._stepped: set[int] = set()  # parameters whose optimizer stepped
        self._touched: set[int] = set()  # parameters that the current backward pass reached
        self.passes: list[tuple[Place, int]] = []  # line and calls behind each backward pass
        self.asked: set[int] = set()  # parameters that asked for a gradient at some backward pass
        self.received: set[int] = set()  # parameters that got a gradient in this step
        self.used: dict[int, set[int]] = {}  # parameters by the pass whose gradient was used
        self.lost: dict[int, dict[int, torch.Tensor]] = {}  # and those whose was not

    def begins(self, line: Place, bits: int) -> None:
        """A backward pass begins."""
        self.check()
        self.passes.append((line, bits))

    def asks(self, parameters: Iterable[torch.Tensor]) -> None:
        """These are there when a pass begins: two optimizers may take turns in asking."""
        self.asked.update(id(each) for each in parameters if each.requires_grad)

    def accumulates(self, parameter: torch.Tensor) -> None:
        """The pass adds to a parameter's gradient.

        Other leaves are left alone: the inputs of a checkpoint, which would live as long as we do.
        """
        key = id(parameter)
        if key not in self.owned and not isinstance(parameter, torch.nn.Parameter):
            return
        self._parameters[key] = parameter
        self.received.add(key)
        self._touched.add(key)
        if self.passes:
            self._pending.setdefault(key, set()).add(len(self.passes) - 1)

    def ends(self) -> None:
        """The pass is over: every gradient is where it will be."""
        for key in self._touched:
            for storage in storages_in(self._parameters[key].grad):
                self._memory[internals.storage_key(storage)] = key
        self._touched.clear()

    def sees(self, name: str, given: Any, fresh: list[torch.UntypedStorage]) -> None:
        """An operation outside backward passes: it may zero a gradient, or carry it away."""
        inputs = list(storages_in(given))
        keys = {
            self._memory[internals.storage_key(each)]
            for each in inputs
            if internals.storage_key(each) in self._memory
        }
        if keys and name in ZEROING:
            self._lose(keys)
        elif keys and fresh and fresh[0].nbytes() >= max(each.nbytes() for each in inputs):
            self._use(keys)

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to step, and so to use what it holds."""
        self.check()
        held = {id(each) for each in held_by(optimizer)}
        self._stepped |= held
        self._use(held)

    def check(self) -> None:
        """Lose the gradients that are no longer where they were."""
        gone = {key for key in self._pending if self._parameters[key].grad is None}
        self._lose(gone)

    def finish(self) -> None:
        """The step is over: what waits for an optimizer that has already stepped is too late."""
        self.check()
        self._lose(self._pending.keys() & self._stepped)

    def _use(self, keys: set[int]) -> None:
        for key in keys & self._pending.keys():
            for number in self._pending.pop(key):
                self.used.setdefault(number, set()).add(key)

    def _lose(self, keys: set[int]) -> None:
        for key in keys & self._pending.keys():
            for number in self._pending.pop(key):
                if key in self.owned:
                    self.lost.setdefault(number, {})[key] = self._parameters[key]


def held_by(optimizer: Any) -> list[torch.Tensor]:
    """The parameters of an optimizer."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def parameters(
    tops: list[Any], tree: Tree, gradients: Gradients, discarded: Iterable[Discarded]
) -> dict[str, Any]:
    """Which parameters got a gradient, and what became of it; name and size of each."""
    named: dict[int, tuple[str, torch.Tensor]] = {}
    for module in chain.from_iterable(top.modules() for top in tops):
        for name, each in internals.own_parameters(module).items():
            if each is not None:
                named.setdefault(id(each), (f"{tree.path(module)}.{name}", each))
    got, asked = got_and_asked(tops, gradients)

    def rows(keys: set[int]) -> list[list[Any]]:
        return [[name, each.numel()] for key, (name, each) in named.items() if key in keys]

    return {
        "count": sum(each.numel() for _, each in named.values()),
        "without_gradient": rows(asked - got),
        "gradient_unused": rows(got - gradients.owned),
        "outside_optimizer": rows(asked - gradients.owned),
        "discards": [[x.line, rows(x.parameters), [*x.calls.items()]] for x in discarded],
        "tops": [tree.path(top) for top in tops],
    }


def got_and_asked(tops: list[Any], gradients: Gradients) -> tuple[set[int], set[int]]:
    """Ids of the parameters that got a gradient in the step, and of those that asked for one."""
    all_of_them = [each for top in tops for each in top.parameters()]
    got = {id(each) for each in all_of_them if each.grad is not None}
    asked = {id(each) for each in all_of_them if each.requires_grad}
    return got | gradients.received, asked | gradients.asked
