"""Caches: folders in which libraries keep what they can make again. Trials may fill them.

They hold nothing of one run's own, and to fill them anew costs minutes.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NAMED = (
    "CUDA_CACHE_PATH",
    "CUPY_CACHE_DIR",
    "HF_DATASETS_CACHE",
    "HF_HOME",
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "PITSTOP_CACHE",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "XDG_CACHE_HOME",
)
AT_HOME = (".cache", ".config/matplotlib", ".cupy", ".nv", ".triton")


def caches() -> tuple[Path, ...]:
    """All of them, also those that are not there yet; none that we work in."""
    here = Path.cwd().resolve()
    found = [Path(os.environ[name]) for name in NAMED if os.environ.get(name)]
    found += [Path.home() / name for name in AT_HOME]
    return tuple(each for each in found if each.resolve() not in {here, *here.parents})


@contextlib.contextmanager
def all_there() -> Iterator[None]:
    """Make the missing ones, since the kernel knows no folder that is not there.

    Those that stay empty are gone afterwards.
    """
    made: list[Path] = []
    for cache in caches():
        missing = [each for each in (cache, *cache.parents) if not each.exists()]
        for folder in reversed(missing):
            with contextlib.suppress(OSError):  # then nobody can fill it
                folder.mkdir()
                made.append(folder)
    try:
        yield
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # it is in use now
                folder.rmdir()
