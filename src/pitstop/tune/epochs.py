"""Epochs: a loader whose workers come and go between two batches, to be timed in one process.

Whenever the change was switched, the epoch goes on with a new iterator, whose workers know nothing
of batches that others have read ahead. It begins the sampler anew, without the batches that the
epoch has had: with shuffling the rest is not what the script would have read, but as long.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DataLoader, IterableDataset

Begin = Callable[[Any], Any]  # ``DataLoader.__iter__``
Settings = dict[str, Any]


class Epochs:
    """The loaders of a script, with their settings while a change is off and on."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self.is_on = is_on
        self._known: WeakKeyDictionary[Any, dict[bool, Settings]] = WeakKeyDictionary()

    def edited(self, loader: Any, own: Settings, ours: Settings) -> None:
        """A loader is about to be built with our settings in place of its own.

        What has them already is a copy of one that we edited, as accelerate makes it.
        """
        off = _settings(own)
        for other, known in list(self._known.items()):
            if vars(other).get("dataset") is own["dataset"] and known[True] == off:
                off = known[False]
        self._known[loader] = {False: off, True: _settings(ours)}

    def around(self, begin: Begin, loader: Any) -> Any:
        """In place of ``DataLoader.__iter__``."""
        return _Epoch(self, begin, loader) if loader in self._known else begin(loader)

    def begun(self, begin: Begin, loader: Any, read: int) -> Any:
        """An iterator with the settings of now, for an epoch that has had so many batches."""
        settings = self._known[loader][self.is_on()]
        if any(vars(loader)[name] != value for name, value in settings.items()):
            end(loader._iterator)  # of workers that would have lived on
            loader._iterator = None
            vars(loader).update(settings)  # some of which may not be set once it is built
        kind = "sampler" if loader.batch_sampler is None else "batch_sampler"
        own = vars(loader)[kind]
        rest = vars(loader)[kind] = _Rest(own, read)
        try:
            return begin(loader)
        finally:
            vars(loader)[kind] = own
            rest.read = 0  # the next epoch of workers that live on is whole


def obstacle(loader: Any, arguments: Settings) -> str:
    """Why the workers of a loader cannot come and go in the midst of an epoch."""
    if isinstance(arguments["dataset"], IterableDataset):
        return "an IterableDataset begins anew with each of its readers"
    kinds = type(loader).__mro__
    if any("__iter__" in vars(kind) for kind in kinds[: kinds.index(DataLoader)]):
        return f"{type(loader).__name__} has its own way to be read"
    return ""


class _Epoch:
    """One epoch, read by one iterator after the other."""

    def __init__(self, epochs: Epochs, begin: Begin, loader: Any) -> None:
        self._epochs, self._begin, self._loader = epochs, begin, loader
        self._on, self._read = epochs.is_on(), 0
        self._batches = epochs.begun(begin, loader, 0)

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Any:
        if self._on is not self._epochs.is_on():
            self._on = not self._on
            end(self._batches)
            self._loader._iterator = None
            self._batches = self._epochs.begun(self._begin, self._loader, self._read)
        batch = next(self._batches)
        self._read += 1
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


class _Rest:
    """What a sampler draws after so many."""

    def __init__(self, sampler: Any, read: int) -> None:
        self.sampler, self.read = sampler, read

    def __iter__(self) -> Iterator[Any]:
        return islice(self.sampler, self.read, None)

    def __len__(self) -> int:
        return len(self.sampler)


def _settings(arguments: Settings) -> Settings:
    """What the loader itself makes of its arguments."""
    workers = arguments.get("num_workers", 0)
    return {
        "num_workers": workers,
        "persistent_workers": arguments.get("persistent_workers", False),
        "prefetch_factor": (arguments.get("prefetch_factor") or 2) if workers else None,
        "pin_memory": arguments.get("pin_memory", False),
    }


def end(batches: Any) -> None:
    """End the workers of an iterator, if it has any."""
    if shut_down := getattr(batches, "_shutdown_workers", None):
        shut_down()
