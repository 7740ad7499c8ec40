"""Loaders: what is known of each DataLoader of the run, and what it has given so far.

A loader is known by its dataset and the line that built it: one that is built again for every
epoch, or that a library wraps into its own, stays the same loader; two on one dataset are two.
"""

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from time import thread_time_ns
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.hooks.made import Places, built, reference
from pitstop.profile.record.caches import caches
from pitstop.profile.record.writer import Writer
from pitstop.profile.source.lines import NOWHERE, Place, asking_library, user_line

LOOKED_AT = 8  # members of each part of a batch whose shapes are read: a few microseconds
ALL_LOOKED_AT = 16  # batches; shapes that change have changed by then
SOME_LOOKED_AT = 8  # of the later ones every eighth at most, for those that change seldom
SHORT_US = 500  # a wait that no worker would shorten; what it was spent on is not asked
MOST_SHAPES = 256  # more say nothing new: no shape comes back
SEQUENCES = (list, tuple)


class _Seen:
    """One loader, while it is used."""

    def __init__(self, number: int, made: Place, dataset: Any) -> None:
        self.number = number
        self.made = made
        self.dataset = reference(dataset)
        self.described = False
        self.batches = self.batch_bytes = 0
        self.looked = self.told = 0  # batches when one was last looked at, and when they were told
        self.learned = 0  # batches that a backward pass followed, before the next ones
        self.since = sys.maxsize  # backward passes before its latest batch
        self.row = 0  # its latest batches of an epoch, at once: some fetch all of a step at first
        self.place = 0  # of its latest batch among those of all loaders
        self.ended = False  # its epoch is over
        self.starts = self.start_us = 0
        self.asks = True  # whether to ask what the next wait is spent on: its thread's own work?
        self.waited_us = self.computed_us = 0  # of all waits that this was asked of
        self.shapes: set[tuple[Any, ...] | None] = set()


class Loaders:
    """All loaders that the recorded thread has built or used."""

    def __init__(self, next_number: Callable[[], int], writer: Writer) -> None:
        self._next_number = next_number
        self._writer = writer
        self._seen: dict[tuple[int, Place], _Seen] = {}
        self._loaders, self._datasets = Places(), Places()
        self._iterators: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()
        self.asked: Callable[[], Any] = lambda: None  # the iterator that was asked last
        self._last = _Seen(-1, NOWHERE, None)
        self._asked_ns = 0  # this thread's work before it asked for a batch; 0: not measured
        self._batches = 0  # of all loaders
        self.backward_passes = 0  # so far; each learns from the latest batch of every loader

    def built(self, loader: Any, dataset: Any) -> None:
        """A loader is being built; where a library does that to wrap one, the first line counts."""
        place, by_user = built(loader)
        known = self._datasets.of(dataset)
        if known is None:
            self._datasets.put(dataset, place)
        self._loaders.put(loader, place if by_user or known is None else known)

    def not_built(self, loader: Any, dataset: Any) -> None:
        """The building failed; torch refuses to shuffle an empty dataset, for one."""
        self._tell_if_empty(self._find(dataset, self._loaders.of(loader)))

    def number_of_loader(self, loader: Any) -> int:
        """The number of a loader whose iteration begins."""
        return self._find(loader.dataset, self._loaders.of(loader)).number

    def started(self, loader: Any, iterator: Any, waited_us: int) -> None:
        """An iterator was made, for which the script has waited."""
        seen = self._find(loader.dataset, self._loaders.of(loader))
        seen.starts += 1
        seen.start_us += waited_us
        seen.row = min(1, seen.row)  # what came at once before was of another epoch
        self._iterators[iterator] = seen
        if seen.starts > 1 and _is_power_of_two(seen.starts):
            self._writer.line({"number": seen.number, "caches": caches(loader.dataset)})

    def number(self, iterator: Any) -> int:
        """The number of the loader whose iterator is asked for a batch."""
        if self.asked() is not iterator:
            self.asked = weakref.ref(iterator)
            self._last = self._iterators.get(iterator) or self._find(
                internals.dataset_of(iterator), None
            )
            if not self._last.described:
                with internals.without_function_modes():
                    self._describe(self._last, iterator)
        self._asked_ns = thread_time_ns() if self._last.asks else 0
        return self._last.number

    @property
    def feeding(self) -> tuple[Any, int]:
        """The iterator that was asked last, and how many batches its loader has given."""
        return self.asked(), self._last.batches

    def is_settled(self, number: int) -> bool:
        """Whether this loader was asked last, or none ever, and its next wait is like the last."""
        return self._last.number == number and (number < 0 or not self._last.asks)

    def counted(self, waited_us: int) -> None:
        """A batch has come from the loader that was asked last."""
        seen = self._last
        seen.batches += 1
        if self._asked_ns:
            seen.waited_us += waited_us
            seen.computed_us += (thread_time_ns() - self._asked_ns) // 1000
            self._asked_ns = 0
        seen.asks = waited_us > SHORT_US or seen.batches < ALL_LOOKED_AT
        learned = self._learned(seen, seen.row)
        seen.learned += learned
        seen.row = seen.row + 1 if seen.place == self._batches and not learned else 1
        seen.since = self.backward_passes
        seen.ended = False
        self._batches = seen.place = self._batches + 1

    def ended(self) -> None:
        """There is no further batch in the loader that was asked last."""
        seen = self._last
        seen.learned += self._learned(seen, seen.row)
        seen.since = self.backward_passes
        seen.ended = True

    def _learned(self, seen: _Seen, row: int) -> int:
        """How many of its latest batches were learned from; none, once another takes over."""
        alone = seen.place == self._batches
        passes = max(0, self.backward_passes - seen.since)
        return min(passes, row if alone else 1) if alone or not seen.ended else 0

    def got(self, iterator: Any, batch: Any, waited_us: int) -> None:
        """A batch has come; the script's modes must not see us look at it."""
        self.counted(waited_us)
        seen = self._last
        if internals.given_by(iterator) == 1:  # the first of an epoch
            seen.start_us += waited_us
        if seen.batches <= ALL_LOOKED_AT or seen.batches - seen.looked >= SOME_LOOKED_AT:
            self._look(seen, batch)

    def _look(self, seen: _Seen, batch: Any) -> None:
        """Read what the batch is made of; now and then tell what is known, lest the run is killed.

        It then has half of it at least.
        """
        seen.looked = seen.batches
        with internals.without_function_modes():
            shapes = _shapes(batch)
            if seen.batches == 1:
                sizes = [each.numel() * each.element_size() for each in tensors(batch)]
                seen.batch_bytes = sum(sizes)
        if shapes not in seen.shapes and shapes and len(seen.shapes) < MOST_SHAPES:
            seen.shapes.add(shapes)
        if seen.batches >= 2 * seen.told:
            self._tell(seen)

    def finish(self) -> None:
        """Tell the last numbers of every loader; in a run without batches, of unused ones too."""
        for seen in self._seen.values():
            self._tell(seen)
        if not any(seen.batches for seen in self._seen.values()):
            for loader in self._loaders.living():
                with contextlib.suppress(AttributeError):  # one that was not built to the end
                    self._tell_if_empty(self._find(loader.dataset, self._loaders.of(loader)))

    def _find(self, dataset: Any, place: Place | None) -> _Seen:
        place = place or self._datasets.of(dataset) or NOWHERE
        key = id(dataset), place
        seen = self._seen.get(key)
        if seen is None or seen.dataset() is not dataset:
            if seen is not None:  # of a dataset that is gone, whose id is used again
                self._tell(seen)
            seen = self._seen[key] = _Seen(self._next_number(), place, dataset)
        return seen

    def _describe(self, seen: _Seen, iterator: Any) -> None:
        seen.described = True
        size = getattr(internals.sampler_of(iterator), "batch_size", None)
        dataset = seen.dataset()
        settings = {
            "dataset": type(dataset).__name__,
            "workers": internals.workers_of(iterator),
            "pinned": bool(internals.pins(iterator)),
            "persistent": bool(getattr(iterator, "_persistent_workers", False)),
            "prefetch": getattr(iterator, "_prefetch_factor", None),
            "length": length(dataset),
            "batch_size": size if isinstance(size, int) else None,
            "per_epoch": length(iterator) if _is_torchs(internals.sampler_of(iterator)) else None,
            "made": seen.made,
            "used": user_line(sys._getframe(1)),
            "asked_by": asking_library(sys._getframe(1)),
        }
        self._writer.line_now({"number": seen.number, "loader": settings})

    def _tell(self, seen: _Seen) -> None:
        seen.told = seen.batches
        learned = seen.learned + self._learned(seen, 1)
        times = seen.starts, seen.start_us, learned, seen.waited_us, seen.computed_us
        counts = [seen.batches, seen.batch_bytes, len(seen.shapes), *times]
        self._writer.line({"number": seen.number, "fetched": counts})

    def _tell_if_empty(self, seen: _Seen) -> None:
        dataset = seen.dataset()
        if not seen.described and length(dataset) == 0:
            seen.described = True
            settings = {"dataset": type(dataset).__name__, "workers": 0, "length": 0}
            self._writer.line_now({"number": seen.number, "loader": settings | {"made": seen.made}})


def _is_torchs(sampler: Any) -> bool:
    """Whether it is torch that knows how much a sampler draws: another may draw to count."""
    kinds = {type(sampler), type(getattr(sampler, "sampler", sampler))}
    return all(kind.__module__.startswith("torch.utils.data.") for kind in kinds)


def _is_power_of_two(count: int) -> bool:
    return count & (count - 1) == 0


def length(sized: Any) -> int | None:
    """Samples of a dataset, or batches of an epoch; ``None`` where it does not tell."""
    try:
        return len(sized)
    except Exception:  # noqa: BLE001 the user's own code
        return None


def tensors(batch: Any) -> Iterator[torch.Tensor]:
    """All tensors of a batch."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, (*SEQUENCES, Mapping)):
        for each in batch.values() if isinstance(batch, Mapping) else batch:
            yield from tensors(each)


def _shapes(batch: Any) -> tuple[Any, ...] | None:
    """The shapes in a batch, nested as it is; ``None`` for what has none."""
    if isinstance(batch, SEQUENCES):
        return tuple([_shapes(each) for each in batch[:LOOKED_AT]])
    if isinstance(batch, torch.Tensor):
        return None if batch.is_nested else batch.shape
    if isinstance(batch, Mapping):
        return tuple([_shapes(each) for each in islice(batch.values(), LOOKED_AT)])
    return None
