"""Merged groups: one update for all parameter groups of an optimizer that have equal settings.

Why it is slow in plain PyTorch: an optimizer updates group after group. Recipes that choose decay
or learning rate by name often build a group for each tensor, hundreds of them, and most have the
same settings. Each group costs the host some 30 µs of checks and lists, and kernels of its own: a
fused update that would be one kernel becomes hundreds.

What is merged: while ``step`` runs, and only then, groups whose settings are equal at that moment
are one group. Schedulers, loggers, checkpoints and code that asks for ``param_groups[7]`` see the
groups that were made, and may change them: the next step looks again. State belongs to tensors, so
nothing of it moves. What a step writes into a group goes back to all that it stands for.

The numbers are the same to the last bit: torch's optimizers treat each tensor for itself. Of
torch's own classes the settings are those that every group has. Of others every entry counts.

What it does not do: merge while a closure runs, where hooks of others run within ``step``, or
within a graph of Dynamo. A step over all tensors at once needs more memory in passing than one
group after the other: about the weights once more, unless it is fused.
"""

import inspect
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any

import torch
from torch.optim import Optimizer

from pitstop import internals

Group = dict[str, Any]
UNREAD = {"params", "param_names", "initial_lr"}  # by steps; the last belongs to schedulers


def merge_groups(optimizer: Optimizer, wanted: Callable[[], bool] = lambda: True) -> None:
    """Let ``optimizer.step`` see groups of equal settings as one, while it is wanted."""
    step = _function(optimizer)

    def merged_step(living: Optimizer, *given: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling() or not wanted() or _is_watched(living):
            return step(living, *given, **named)
        merging = _Merging(living)
        if given and callable(given[0]):
            given = (merging.apart(given[0]), *given[1:])
        elif callable(named.get("closure")):
            named = {**named, "closure": merging.apart(named["closure"])}
        merging.begin()
        try:
            return step(living, *given, **named)
        finally:
            merging.end()

    optimizer.step = MethodType(merged_step, optimizer)  # type: ignore[method-assign]


def alike(optimizer: Optimizer) -> list[list[Group]]:
    """The groups, in lists of equal settings."""
    read = _settings(optimizer)
    found: dict[Any, list[Group]] = {}
    for group in optimizer.param_groups:
        names = read or tuple([each for each in group if each not in UNREAD])
        settings = tuple(map(group.get, names))  # tensors count as equal where they are one
        try:
            found.setdefault((names, settings), []).append(group)
        except TypeError:  # a list, which cannot be a key
            found.setdefault((names, *map(_key, settings)), []).append(group)
    return list(found.values())


def _key(value: Any) -> Any:
    """A list by its values; all else that has none is equal only to itself."""
    if isinstance(value, list):
        return tuple(map(_key, value))
    return value if isinstance(value, Hashable) else id(value)


def _function(optimizer: Optimizer) -> Callable[..., Any]:
    """Its step as a function of it; a scheduler may have put one of its own in the place."""
    own = vars(optimizer).get("step")
    if own is None:
        return type(optimizer).step
    return lambda _, *given, **named: own(*given, **named)


def _settings(optimizer: Optimizer) -> tuple[str, ...]:
    """The names of all that its step reads of a group; none where that is not known."""
    step = inspect.unwrap(type(optimizer).step)
    return tuple(optimizer.defaults) if step.__module__.startswith("torch.optim.") else ()


def _is_watched(optimizer: Optimizer) -> bool:
    """Whether functions of others run within ``step``, and may look at the groups."""
    return any(
        not str(getattr(getattr(each, "func", each), "__module__", "")).startswith("pitstop.")
        for hooks in internals.step_hooks(optimizer)
        for each in hooks.values()
    )


class _Merging:
    """The groups of one step, merged and apart."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._groups = optimizer.param_groups
        self._merged: list[tuple[Group, Group, list[Group]]] = []  # before, during, stands for

    def begin(self) -> None:
        """Put one group in the place of all that have its settings."""
        groups: list[Group] = []
        self._merged.clear()
        for same in alike(self._optimizer):
            if same[1:]:
                during = {**same[0], "params": [each for one in same for each in one["params"]]}
                self._merged.append((dict(same[0]), during, same))
            groups.append(during if same[1:] else same[0])
        self._optimizer.param_groups = groups

    def end(self) -> None:
        """Put the groups back, with what was written into those that stood for them."""
        self._optimizer.param_groups = self._groups
        for before, during, same in self._merged:
            new = {
                key: value
                for key, value in during.items()
                if key != "params" and (key not in before or before[key] is not value)
            }
            for group in same if new else ():
                group.update(new)

    def apart(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The closure, which sees the groups as they were made."""

        def call() -> Any:
            self.end()
            try:
                return closure()
            finally:
                self.begin()

        return call
