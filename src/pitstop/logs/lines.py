"""Lines: CSV, JSON lines and the Trainer's own state, where every line or entry is a step."""

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import count
from typing import Any, BinaryIO

from pitstop.logs.build import Point
from pitstop.logs.tags import is_checked
from pitstop.logs.torn import TornError

STEPS = ("step", "global_step", "_step", "iter", "iteration", "it", "steps", "batch", "n_iter")
EPOCHS = ("epoch", "epochs")
ASKED_FOR = {*STEPS, *EPOCHS, "lr", "learning_rate", "psnr", "acc", "accuracy"}  # of a CSV
NO_VALUES = {*STEPS, *EPOCHS}
TIMES = ("timestamp", "_timestamp", "wall_time", "time", "datetime", "date")
EARLIEST_TIME, LATEST_TIME = 1e9, 1e10  # seconds since 1970: smaller numbers are durations
LONGEST_LINE = 10_000_000  # characters; more of it is no line of a log
MOST_BYTES = 50_000_000  # read line by line: some twenty seconds; longer logs are read in part
SCATTER = 2_654_435_761  # Knuth's: neighbours come far apart
NOT_FINITE = re.compile(rb"(?i)nan|inf")
LARGEST_STATE_BYTES = 500_000_000  # parsed as a whole, in several times its size
DEEPEST = 20  # dictionaries in each other


def read_csv(stream: BinaryIO) -> Iterator[Point]:
    """Rows under one line of titles; empty cells are no numbers."""
    lines = _lines(stream)
    titles_line = next(lines, "")
    delimiter = max(",;\t", key=titles_line.count)
    titles = [title.strip() for title in _quoted(titles_line, delimiter)]
    if not any(title.lower() in ASKED_FOR or "loss" in title.lower() for title in titles):
        return  # a table, but not of a training
    wrong, entries = 0, _Entries()
    timed = [place for place, title in enumerate(titles) if title in TIMES]
    for index, line in enumerate(lines):
        cells = line.split(delimiter) if '"' not in line else _quoted(line, delimiter)
        if len(cells) != len(titles):
            wrong += 1
            continue
        times = (time_of(cells[place]) for place in timed)
        time = next((found for found in times if found is not None), 0.0)
        yield from entries.points(_numbers(titles, cells, delimiter == ";"), time, index)
    if wrong:
        raise TornError(f"{wrong} rows with another number of cells than the first were left out")


def _quoted(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _numbers(titles: list[str], cells: list[str], comma: bool) -> dict[str, float]:
    values = {}
    for title, cell in zip(titles, cells, strict=True):
        try:
            values[title] = float(cell.replace(",", ".") if comma else cell)
        except ValueError:
            continue  # empty, or a word
    return values


def read_json_lines(stream: BinaryIO) -> Iterator[Point]:
    """One object on each line."""
    wrong, entries = 0, _Entries()
    for index, line in enumerate(_lines(stream)):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            wrong += 1
            continue
        if isinstance(entry, dict):
            yield from entries.of_object(entry, index)
    if wrong:
        raise TornError(f"{wrong} lines that are not JSON were left out")


def read_trainer_state(stream: BinaryIO) -> Iterator[Point]:
    """The log history that transformers' Trainer keeps with its checkpoints."""
    size = os.fstat(stream.fileno()).st_size
    if size > LARGEST_STATE_BYTES:
        raise TornError(f"{size / 1e9:.1f} GB are more than a Trainer writes; it is not read")
    try:
        history = json.loads(stream.read())["log_history"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TornError("not complete: no log_history can be read") from None
    entries = _Entries()
    for index, entry in enumerate(history):
        if isinstance(entry, dict):
            yield from entries.of_object(entry, index)


class _Entries:
    """Entries one after the other, so that steps counted anew in each epoch go on rising."""

    def __init__(self) -> None:
        self.last, self.epoch, self.offset = 0.0, 0.0, 0.0

    def points(self, values: dict[str, float], time: float, index: int) -> Iterator[Point]:
        """The numbers of one step."""
        step = self._step(values, index)
        for tag, value in values.items():
            if tag not in NO_VALUES and not (time and tag in TIMES):
                yield Point(tag, step, value, time)

    def of_object(self, entry: Mapping[str, Any], index: int) -> Iterator[Point]:
        """The numbers of one step, from an object of JSON."""
        times = (time_of(entry[name]) for name in TIMES if name in entry)
        time = next((found for found in times if found is not None), 0.0)
        values = dict(flattened(entry))
        if isinstance(mode := entry.get("mode"), str) and is_checked(mode):  # mmcv's and mmengine's
            values = {
                name if name in NO_VALUES else f"{mode}/{name}": values[name] for name in values
            }
        return self.points(values, time, index)

    def _step(self, values: Mapping[str, float], index: int) -> float:
        epoch = next((values[name] for name in EPOCHS if name in values), None)
        step = next((values[name] for name in STEPS if name in values), None)
        if step is None:
            return float(index) if epoch is None else epoch
        if step < self.last and epoch is not None and epoch > self.epoch:
            self.offset += self.last + (step == 0)  # else they are counted from 1
        self.last, self.epoch = step, self.epoch if epoch is None else epoch
        return self.offset + step


def flattened(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Numbers in nested dictionaries, under joined names."""
    if isinstance(value, dict) and depth < DEEPEST:
        for key, inner in value.items():
            yield from flattened(inner, f"{name}/{key}" if name else str(key), depth + 1)
    elif (found := number_of(value)) is not None:
        yield name, found


def number_of(value: Any) -> float | None:
    """A number, also where it is written as a text; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def time_of(value: Any) -> float | None:
    """Seconds since 1970, from a number or a date as ISO has it."""
    found = number_of(value)
    if found is not None:
        return found if EARLIEST_TIME <= found <= LATEST_TIME else None
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else None
    except (ValueError, OverflowError):
        return None


def is_chosen(index: int, every: int) -> bool:
    """One in so many, by chance: every fourth line may be of one tag."""
    return index == 0 or (index * SCATTER >> 16) % every == 0


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines as text; of a very long log some, and every one with a number that is not finite."""
    size = os.fstat(stream.fileno()).st_size
    every = max(1, size // MOST_BYTES)
    for index in count():
        line = stream.readline(LONGEST_LINE)
        if not line:
            break
        if len(line) >= LONGEST_LINE:
            raise TornError("a line of more than 10 MB; what follows is left out")
        if is_chosen(index, every) or NOT_FINITE.search(line):
            text = line.decode("utf-8-sig", "replace").replace("\0", "")
            yield from filter(None, re.split(r"[\r\n]+", text))
    if every > 1:
        told = f"one line in {every} was read, and every line with nan or inf"
        raise TornError(f"{size / 1e9:.1f} GB: {told}")
