"""Listings: the files and folders that a dataset's own lists name.

Such are Hugging Face's ``metadata.jsonl``, and texts with a path on each line: Vimeo's
``tri_trainlist.txt``, GoPro's and RealBlur's pairs, BasicSR's ``meta_info_*.txt``.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from pitstop.core.reading import open_regular
from pitstop.data.dataset import Examples, Folder, Problem
from pitstop.data.walk import more

LISTS = ("metadata.jsonl", "metadata.csv")
COLUMN = "file_name"
LONGEST_LINE = 1_000_000  # bytes
FIRST_LINES = 50  # of a text, which tell whether it is a list, and from where its paths begin
MOSTLY = 0.6  # of them are there: what is missing then is missing, and no other dataset
MOST_LINES = 200_000  # of a list are looked up, evenly spread; some seconds
MOST_PLACES = 30  # folders that a list's paths may begin in
MOST_WORDS = 3  # of a line: a pair and its name
PICTURE = re.compile(r"(?i)\.(png|jpe?g|bmp|tiff?|webp|npy|npz|pt|mp4|avi)$")
MOST_TEXTS = 20  # in a folder: where there are more, they are captions or labels


def missing_from_lists(root: Path, folders: Sequence[Folder]) -> list[Problem]:
    """Files that a list names and that are not there."""
    missing = Examples()
    for folder in folders:
        for name in LISTS:
            here = root / folder.path
            for listed in _listed(here / name):
                if not _is_there(here / listed):
                    missing = more(missing, f"{folder.path}/{listed}".lstrip("/"))
    found = [Problem("listed in the metadata, missing", missing, "metadata")] if missing else []
    return [*found, *_missing_from_texts(root, folders)]


def _missing_from_texts(root: Path, folders: Sequence[Folder]) -> Iterator[Problem]:
    """What a text with a path on each line names, where most of the others are there."""
    near = [folder.path for folder in folders if folder.path.count("/") < 2][:MOST_PLACES]
    few = {folder.path for folder in folders if 0 < _texts(folder) <= MOST_TEXTS}
    for path in [path for path in near if path in few]:
        for text in sorted((root / path).glob("*.txt")):
            if (begin := _begin_of(root, near, _lines(text))) is None:
                continue
            missing = Examples()
            for words in islice(_lines(text), MOST_LINES):
                for word in _paths_in(words):
                    if not _is_there(begin / word):
                        missing = more(missing, word)
            if missing:
                name = str(PurePosixPath(path) / text.name)
                yield Problem(f"listed in {name}, missing", missing, name)


def _texts(folder: Folder) -> int:
    return sum(files.count for files in folder.files if files.kind == "text")


def _begin_of(root: Path, folders: Sequence[str], lines: Iterator[list[str]]) -> Path | None:
    """The folder in which the paths of a list begin; None where it is no list of paths."""
    first = [words for words in islice(lines, FIRST_LINES) if words]
    paths = [word for words in first for word in _paths_in(words)]
    if len(paths) < max(2, len(first)):
        return None
    for folder in folders:
        there = sum(_is_there(root / folder / path) for path in paths)
        if there >= max(2, MOSTLY * len(paths)):
            return root / folder
    return None


def _paths_in(words: list[str]) -> list[str]:
    """The words that are paths: with a folder, or with a suffix."""
    known = [word for word in words[:MOST_WORDS] if "/" in word or PICTURE.search(word)]
    return [word for word in known if not word.startswith("/") and "://" not in word]


def _lines(path: Path) -> Iterator[list[str]]:
    """The words of each line."""
    try:
        with open_regular(path) as stream:
            for line in iter(lambda: stream.readline(LONGEST_LINE), b""):
                yield line.decode("utf-8-sig", "replace").split()
    except OSError:
        return


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no name that a file can have
        return False


def _listed(path: Path) -> Iterator[str]:
    try:
        with open_regular(path) as stream:
            lines = (
                line.decode("utf-8-sig", "replace")
                for line in iter(lambda: stream.readline(LONGEST_LINE), b"")
            )
            yield from _of_table(lines) if path.suffix == ".csv" else _of_objects(lines)
    except OSError:
        return


def _of_objects(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get(COLUMN), str):
            yield entry[COLUMN]


def _of_table(lines: Iterator[str]) -> Iterator[str]:
    try:
        for row in csv.DictReader(lines):
            if name := row.get(COLUMN):
                yield name
    except csv.Error:
        return
