"""Dataset cache: generated data on disk, whole or not at all.

A dataset is built in a folder beside its final place and renamed when complete, so a reader
never sees half of one. A manifest lists every file with its size; a file that is missing or
short makes the whole dataset be built again.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import track

from pitstop.core.folders import cache_folder

if sys.platform != "win32":
    import fcntl

MANIFEST = "manifest.json"

Build = Callable[[Path], Iterator[None]]  # writes below the folder, yields after each item


def dataset(name: str, version: int, build: Build, items: int, root: Path | None = None) -> Path:
    """The folder of the dataset ``name``, built first if it is absent, old or damaged.

    Raise ``version`` when ``build`` writes something else than before.
    """
    folder = (root or cache_folder() / "data") / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent):
            if not _is_whole(folder, version):
                _build(folder, version, build, items)
    except OSError as error:
        reason = error.strerror or error
        raise SystemExit(
            f"cannot write the dataset to {folder}: {reason}; "
            "free some room or set PITSTOP_CACHE to another folder"
        ) from error
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for others who build in this folder: several forms of a system may start at once."""
    if sys.platform == "win32":
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _is_whole(folder: Path, version: int) -> bool:
    """Whether every file the manifest lists is there with the size it was written with."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes = manifest["files"].items()
        return manifest["version"] == version and all(
            (folder / path).stat().st_size == size for path, size in sizes
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _build(folder: Path, version: int, build: Build, items: int) -> None:
    console = Console(stderr=True)
    verb = "rebuilding damaged or old" if folder.exists() else "generating"
    console.print(f"{verb} dataset {folder}", highlight=False, soft_wrap=True)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    steps = build(partial)
    bar = {"console": console, "disable": not console.is_terminal, "transient": True}
    for _ in track(steps, f"{folder.name}:", total=items, **bar):  # type: ignore[arg-type]
        pass
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    sizes = {path.relative_to(partial).as_posix(): path.stat().st_size for path in files}
    manifest = {"version": version, "files": sizes}
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
