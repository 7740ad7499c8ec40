"""Shelf: the runs that others are held against. On disk, a search that is resumed has them too."""

import hashlib
import os
import platform
from contextlib import suppress
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
        """The same for the same run on the same devices: others may round otherwise."""
        said = [*map(label, self.kept), str(self.seed), self.perturb, str(self.number)]
        devices = [platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES", "")]
        return hashlib.blake2b("\n".join(said + devices).encode(), digest_size=12).hexdigest()


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
        self._held: dict[str, tuple[Which, Held]] = {}

    @property
    def untouched(self) -> list[Sample]:
        """Those without any change that were asked for so far."""
        return [held.sample for which, held in self._held.values() if not which.kept]

    def find(self, which: Which) -> Held | None:
        """The run, if it was made before; what cannot be read is made again."""
        name = which.name
        if name not in self._held and self._folder:
            with suppress(PitstopError):
                self._held[name] = which, store.load(self._folder / f"{name}.json", Held)
        return self._held[name][1] if name in self._held else None

    def put(self, which: Which, held: Held) -> None:
        """Keep it; on disk, where there is room."""
        self._held[which.name] = which, held
        text = store.dumps(held) if self._folder else ""
        if self._folder and len(text) <= store.LARGEST_BYTES:
            with suppress(PitstopError):
                store.write_text(self._folder / f"{which.name}.json", text, private=True)
