"""Listings: the files that a dataset's own metadata name, as Hugging Face's ImageFolder has it."""

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from pitstop.core.reading import open_regular
from pitstop.data.dataset import Examples, Folder, Problem
from pitstop.data.walk import more

LISTS = ("metadata.jsonl", "metadata.csv")
COLUMN = "file_name"
LONGEST_LINE = 1_000_000  # bytes


def missing_from_lists(root: Path, folders: Iterable[Folder]) -> list[Problem]:
    """Files that a list names and that are not there."""
    missing = Examples()
    for folder in folders:
        for name in LISTS:
            here = root / folder.path
            for listed in _listed(here / name):
                if not _is_there(here / listed):
                    missing = more(missing, f"{folder.path}/{listed}".lstrip("/"))
    return [Problem("listed in the metadata, missing", missing, "metadata")] if missing else []


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
