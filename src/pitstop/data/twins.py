"""Twins: the same clip in two splits, told by counts and sizes, then sure by the bytes."""

import os
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from pitstop.core.reading import read_regular
from pitstop.data.dataset import Examples, Place
from pitstop.data.layout import main_files
from pitstop.data.look import LARGEST_BYTES
from pitstop.data.walk import more, names_of

FEWEST = 2  # files; a single one is compared by its content elsewhere
Clip = list[Place]


def clips_in_two_splits(root: Path, places: Sequence[Place]) -> Examples:
    """Clips and classes with equal files in all of their folders, in different splits."""
    clips: dict[tuple[str, str], Clip] = defaultdict(list)
    for place in places:
        if main_files(place.folder):
            clips[place.split, place.item].append(place)
    alike: dict[tuple[int, int], list[Clip]] = defaultdict(list)
    for clip in clips.values():
        alike[_size(clip)].append(clip)
    found = Examples()
    for (files, size), group in alike.items():
        if files >= FEWEST and size and len({clip[0].split for clip in group}) > 1:
            for one, other in _equal(root, group):
                found = more(found, f"{_path(one)} = {_path(other)}")
    return found


def _equal(root: Path, group: list[Clip]) -> list[tuple[Clip, Clip]]:
    seen: dict[bytes, Clip] = {}
    pairs = [(clip, seen.setdefault(_content(root, clip), clip)) for clip in group]
    return [(clip, before) for clip, before in pairs if clip[0].split != before[0].split]


def _size(clip: Clip) -> tuple[int, int]:
    files = [files for place in clip for files in place.folder.files]
    return sum(each.count for each in files), sum(each.bytes for each in files)


def _path(clip: Clip) -> str:
    """Of the clip; of its only folder where it has no more."""
    return clip[0].folder.path.removesuffix(f"/{clip[0].role}")


def _content(root: Path, clip: Clip) -> bytes:
    """Of the first and the last file of each role."""
    digest = blake2b(digest_size=16)
    for place in sorted(clip, key=lambda each: each.role):
        files, folder = main_files(place.folder), place.folder.path
        if files is None:
            continue
        for pick in (min, max):
            name = pick(names_of(root, folder, files.kind))
            try:
                digest.update(read_regular(root / folder / name, LARGEST_BYTES))
            except OSError:
                digest.update(os.urandom(16))  # equal to nothing
    return digest.digest()
