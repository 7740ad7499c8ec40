"""Batches: what the loaders gave for the last steps, so that one of them can be given again.

A library may read ahead: Accelerate holds the next batch when a step ends. How many are ahead is
seen in the first step, which reads those as well. Batches are kept as they were given, not copied.
"""

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.hooks.patch import Undo, patch
from pitstop.profile.inspect.tensors import tensors_in

KEPT = 6  # steps: a GPU may tell of a bad one some steps later


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What a loader gave, and which samples of its dataset that was."""

    loader: Any  # a weak reference
    value: Any
    samples: Any  # indices, as the sampler gave them; None where nobody knows
    dataset: str


@dataclass(slots=True)
class Fetched:
    """The batches of one step, and the random numbers that came after them."""

    batches: list[Batch] = field(default_factory=list)
    random: tuple[Any, ...] | None = None


class Batches:
    """Stands between the loaders and the script."""

    def __init__(self, undos: list[Undo]) -> None:
        self._steps: deque[Fetched] = deque([Fetched()], maxlen=KEPT)
        self._first: int | None = None  # batches until the first step ended
        self._indices: WeakKeyDictionary[Any, deque[Any]] = WeakKeyDictionary()
        self._loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._again: list[Batch] = []
        self.of_repeated: Sequence[Batch] = ()
        self._random: tuple[Any, ...] | None = None  # to begin the repeated step with
        self.repeating: Callable[[], None] = lambda: None  # told when the first comes again
        undos += [
            patch((DataLoader,), "__iter__", self._iterating),
            patch((_BaseDataLoaderIter,), "_next_index", self._choosing),
            patch((_BaseDataLoaderIter,), "__next__", self._fetching),
        ]

    def step_ended(self) -> None:
        """An optimizer has stepped: what is read from now on is for the next one."""
        if self._steps[-1].batches:
            if self._first is None:
                self._first = len(self._steps[-1].batches)
            self._steps.append(Fetched())

    def of(self, back: int) -> Sequence[Batch]:
        """The batches of the step so many before the current one; of the current one for 0."""
        usual = len(self._steps[-2].batches) if len(self._steps) > 1 else self._first or 0
        ahead = max(0, (self._first or usual) - usual) if self._first else 0
        given = [batch for step in self._steps for batch in step.batches]
        end = len(given) - ahead - back * usual
        return given[max(0, end - usual) : end] if usual and end > 0 else given if not back else []

    def repeat(self, back: int) -> int:
        """Give the batches of that step again, as soon as one is asked for.

        In how many steps they are learned from; 0 where there are none.
        """
        batches = self.of(back)
        if not batches or self._again:
            return 0
        self._again = list(batches)
        self.of_repeated = batches
        of_it = (step for step in self._steps if batches[0] in step.batches)
        self._random = next((step.random for step in of_it), None)
        ahead = max(0, (self._first or 0) - len(batches))
        return 1 + -(-ahead // len(batches))

    def _iterating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(loader: Any) -> Any:
            attempt(self._forget, loader)
            iterator = original(loader)
            if isinstance(iterator, _BaseDataLoaderIter):
                self._loaders[iterator] = ref(loader)
            return iterator

        return iterate

    def _forget(self, loader: Any) -> None:
        """Workers that live on may have been told to read what an epoch given up had left."""
        if getattr(loader, "_iterator", None) is not None:
            self._indices.pop(loader._iterator, None)

    def _choosing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def choose(iterator: Any) -> Any:
            indices = original(iterator)
            attempt(lambda: self._indices.setdefault(iterator, deque()).append(indices))
            return indices

        return choose

    def _fetching(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch(iterator: Any) -> Any:
            loader = attempt(self._loaders.get, iterator)
            if self._again and loader is not None and self._again[0].loader == loader:
                return self._given_again()
            value = original(iterator)
            attempt(self._keep, iterator, loader, value)
            return value

        return fetch

    def _given_again(self) -> Any:
        if self._random is not None:
            attempt(set_random, self._random)
            self._random = None
            self.repeating()
        return self._again.pop(0).value

    def _keep(self, iterator: Any, loader: Any, value: Any) -> None:
        chosen = self._indices.get(iterator)
        samples = chosen.popleft() if chosen else None
        dataset = type(getattr(iterator, "_dataset", None)).__name__
        step = self._steps[-1]
        step.batches.append(Batch(loader, value, samples, dataset))
        if step.random is None:
            step.random = random_state()


def random_state() -> tuple[Any, ...]:
    """The states of the generators that a forward pass may draw from."""
    numpy = sys.modules.get("numpy")
    return (
        torch.get_rng_state(),
        torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
        random.getstate(),
        numpy.random.get_state() if numpy else None,
    )


def set_random(state: tuple[Any, ...]) -> None:
    """Draw again what was drawn after ``random_state``."""
    on_cpu, on_gpu, python, numpy = state
    torch.set_rng_state(on_cpu)
    if on_gpu is not None:
        torch.cuda.set_rng_state(on_gpu)
    random.setstate(python)
    if numpy is not None:
        sys.modules["numpy"].random.set_state(numpy)


def bad_numbers(batches: Sequence[Batch]) -> int:
    """How many numbers of these batches are not finite."""
    found = (each for batch in batches for each in tensors_in(batch.value))
    floats = (each.detach() for each in found if each.is_floating_point())
    return sum(int((~torch.isfinite(each)).sum()) for each in floats)


def samples_of(batches: Sequence[Batch]) -> Iterator[int]:
    """The indices of all samples, where the sampler gave numbers."""
    for batch in batches:
        for each in batch.samples if isinstance(batch.samples, list) else [batch.samples]:
            if isinstance(each, Integral):
                yield int(each)
