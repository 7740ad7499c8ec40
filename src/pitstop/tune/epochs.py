"""Epochs: a loader whose workers come and go between two batches, to be timed in one process.

Whenever the change was switched, the epoch goes on with a new iterator, whose workers know nothing
of batches that others have read ahead. A new iterator begins its sampler anew, so what is read is
not what the script would have read; the epoch is as long as it would have been.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DataLoader

Settings = dict[str, Any]
SWITCHED = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")


class Epochs:
    """The loaders of a script, with their settings while a change is off and on."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on
        self._known: WeakKeyDictionary[Any, dict[bool, Settings]] = WeakKeyDictionary()

    def edited(self, loader: Any, own: Settings, ours: Settings) -> None:
        """A loader is about to be built with our settings in place of its own."""
        self._known[loader] = {False: _switched(own), True: _switched(ours)}

    def around(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        """In place of ``DataLoader.__iter__``."""
        if loader not in self._known:
            return begin(loader)
        return _Epoch(lambda: self._begun(begin, loader), self._is_on, _length(loader))

    def _begun(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        settings = self._known[loader][self._is_on()]
        if any(vars(loader)[name] != value for name, value in settings.items()):
            _end(loader._iterator)  # of workers that would have lived on
            loader._iterator = None
            vars(loader).update(settings)  # some of which may not be set once it is built
        return begin(loader)


class _Epoch:
    """One epoch, read by one iterator after the other."""

    def __init__(
        self, begin: Callable[[], Any], is_on: Callable[[], bool], length: int | None
    ) -> None:
        self._begin, self._is_on, self._length = begin, is_on, length
        self._read = 0
        self._on, self._restarted = is_on(), False
        self._batches = begin()

    def __iter__(self) -> "_Epoch":
        return self

    def __next__(self) -> Any:
        if self._on is not self._is_on():
            self._on, self._restarted = not self._on, True
            _end(self._batches)
            self._batches = self._begin()
        if self._restarted and self._read == self._length:
            raise StopIteration
        batch = next(self._batches)
        self._read += 1
        return batch

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _switched(arguments: Settings) -> Settings:
    """What the loader itself makes of its arguments."""
    workers = arguments.get("num_workers", 0)
    ahead = arguments.get("prefetch_factor") or 2
    lives_on = arguments.get("persistent_workers", False)
    pinned = arguments.get("pin_memory", False)
    return dict(zip(SWITCHED, (workers, lives_on, ahead if workers else None, pinned), strict=True))


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # an IterableDataset
        return None


def _end(batches: Any) -> None:
    if shut_down := getattr(batches, "_shutdown_workers", None):
        shut_down()
