"""Doubling: loaders give the batches of each step twice, so that a step can be repeated.

How many batches a step takes from each loader is counted in the steps before. Where a library reads
ahead, those that it holds already come first, and groups begin that much later: ``begin`` is told
how many they are, and a checksum of what the model is given tells whether that was right.

A dataset may draw at random in our own process. The second pass reads nothing, so those draws must
not move the numbers that the step draws. So reading has generators of its
own while it is doubled.
"""

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.data import DataLoader

from pitstop import internals
from pitstop.profile.hooks.patch import Undo, patch
from pitstop.tune.bench.state import Generators
from pitstop.tune.inside.device import empty_queue


class _Stream:
    """One iterator of a loader."""

    def __init__(self) -> None:
        self.read = 0  # batches in this step so far
        self.usual = 0  # batches in the last step
        self.single = 0  # batches that are given once, before the first group
        self.group: list[Any] = []  # the copies that are kept of this one
        self.again: list[Any] = []  # those still to be given again


class Doubling:
    """Stands between the loaders and whoever reads them."""

    def __init__(self, undos: list[Undo]) -> None:
        self._on = False
        self._ahead = 0
        self._thread = get_ident()
        self._streams: WeakKeyDictionary[Any, _Stream] = WeakKeyDictionary()
        self._reading: Generators | None = None  # the generators of datasets
        self.epoch_begun = False  # in this step: it is no step like others
        self.waited_s = 0.0  # for batches, by the thread of the script
        self.settles = False  # a GPU does all that it was given before a batch is waited for
        undos.append(patch((internals.LoaderIterator,), "__next__", self._next))
        undos.append(patch((DataLoader,), "__iter__", self._iter))

    def begin(self, ahead: int = 0) -> None:
        """From now on each group comes twice, behind so many batches that were read ahead."""
        self._on, self._ahead = True, ahead
        self._reading = Generators()
        for stream in self._streams.values():
            self._align(stream)

    def end(self) -> None:
        """Batches come once again."""
        self._on = False
        for stream in self._streams.values():
            stream.group.clear()
            stream.again.clear()

    def step_ended(self) -> None:
        """A step has ended: what was read since the last one belongs to it."""
        self.epoch_begun = False
        for stream in self._streams.values():
            stream.usual, stream.read = stream.read, 0

    @property
    def reads(self) -> bool:
        """Whether steps read from a loader at all."""
        return any(stream.usual for stream in self._streams.values())

    def _align(self, stream: _Stream) -> None:
        stream.group, stream.again = [], []
        stream.single = -self._ahead % stream.usual if stream.usual else 0

    def _iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(loader: Any) -> Any:
            if get_ident() == self._thread:
                self.epoch_begun = True
            return original(loader)

        return iterate

    def _next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch(iterator: Any) -> Any:
            stream = self._streams.setdefault(iterator, _Stream())
            stream.read += 1
            if not (self._on and stream.usual):
                return self._timed(original, iterator)
            if stream.again:
                return stream.again.pop(0)
            batch = self._fresh(original, iterator)
            if stream.single:
                stream.single -= 1
                return batch
            stream.group.append(copied(batch))
            if len(stream.group) >= stream.usual:
                stream.group, stream.again = [], stream.group
            return batch

        return fetch

    def _timed(self, original: Callable[..., Any], iterator: Any) -> Any:
        if get_ident() != self._thread:
            return original(iterator)
        if self.settles:
            empty_queue()
        begun = perf_counter()
        try:
            return original(iterator)
        finally:
            self.waited_s += perf_counter() - begun

    def _fresh(self, original: Callable[..., Any], iterator: Any) -> Any:
        if get_ident() != self._thread or self._reading is None:
            return original(iterator)
        own = Generators()
        self._reading.put_back()
        try:
            return original(iterator)
        finally:
            self._reading = Generators()
            own.put_back()


def copied(value: Any) -> Any:
    """The same values in tensors of their own, lest a step that writes into them spoils both."""
    if isinstance(value, torch.Tensor):
        return _copied_tensor(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copied, value))
    if type(value) in {list, tuple}:
        return type(value)(map(copied, value))
    if isinstance(value, dict):
        found = {key: copied(each) for key, each in value.items()}
        if type(value) is dict:
            return found
        made = value.copy() if hasattr(value, "copy") else dict(value)
        made.update(found)
        return made
    return value


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) is not torch.Tensor or tensor.layout != torch.strided:
        return tensor
    new = tensor.detach().clone()
    return new.pin_memory() if not tensor.is_cuda and tensor.is_pinned() else new
