"""Shelf: the runs that others are held against. On disk, a search that is resumed has them too."""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from pitstop.compare.quantities import Sample
from pitstop.core import store
from pitstop.core.errors import PitstopError
from pitstop.tune.readings import Readings
from pitstop.tune.track import Changes, label


@dataclass(frozen=True, slots=True)
class Which:
    """One of them: untouched, or with what was kept before those that are held against it."""

    kept: Changes = ()
    seed: int = 0
    perturb: str = ""  # the precision in which its weights are moved
    number: int = 1  # of several that are alike, or in which they are moved

    @property
    def name(self) -> str:
        """The same for the same run on this machine: another one may round otherwise."""
        said = [*map(label, self.kept), str(self.seed), self.perturb, str(self.number)]
        words = "\n".join((*said, platform.node()))
        return hashlib.blake2b(words.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of such a run."""

    readings: Readings
    sample: Sample
    warnings: tuple[str, ...] = ()  # of the script's


class Shelf:
    """Runs by name."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._held: dict[str, Held] = {}
        self._untouched: list[str] = []

    @property
    def untouched(self) -> list[Sample]:
        """Those without any change that were asked for so far."""
        return [self._held[each].sample for each in self._untouched]

    def find(self, which: Which) -> Held | None:
        """The run, if it was made before."""
        name = which.name
        if name not in self._held and self._folder:
            try:
                self._hold(which, store.load(self._folder / f"{name}.json", Held))
            except PitstopError:  # it can be made again
                return None
        return self._held.get(name)

    def put(self, which: Which, held: Held) -> None:
        """Keep it."""
        self._hold(which, held)
        if self._folder:
            store.save(self._folder / f"{which.name}.json", held)

    def _hold(self, which: Which, held: Held) -> None:
        self._held[which.name] = held
        if not which.kept:
            self._untouched.append(which.name)
