"""Read logs: find the files of each run, and read them with the reader that they need."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pitstop.core.errors import PitstopError
from pitstop.core.reading import LFS_POINTER, open_regular
from pitstop.logs.build import Builder, Point
from pitstop.logs.events import read_events
from pitstop.logs.history import Logs, Run
from pitstop.logs.joined import joined
from pitstop.logs.lines import read_csv, read_json_lines, read_trainer_state
from pitstop.logs.torn import TornError
from pitstop.logs.wandb_file import read_wandb

Reader = Callable[[BinaryIO], Iterator[Point]]
Tick = Callable[[int], None]
TICK_POINTS = 2000  # between two moves of a progress bar
LONGEST_FIRST = 1_000_000  # bytes of a line that tells whether a file is a log
NOT_LOGS = {".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of log: its name and its reader."""

    name: str
    reader: Reader


EVENTS = Kind("TensorBoard", read_events)
CSV = Kind("CSV", read_csv)
JSON_LINES = Kind("JSON lines", read_json_lines)
STATE = Kind("Trainer", read_trainer_state)
WANDB = Kind("W&B", read_wandb)


def read_logs(path: Path, tick: Tick = lambda _: None, begin: Tick = lambda _: None) -> Logs:
    """All runs in a folder, or the one in a file; ``begin`` hears the bytes, ``tick`` the steps."""
    files, skipped = _files(path)
    begin(sum(_size(file) for file in files))
    groups: dict[tuple[str, Kind], list[Path]] = defaultdict(list)
    for file in files:
        if kind := _kind(file):
            name = _name(path, file, kind)
            groups[path.resolve().name if name == "." else name, kind].append(file)
    if not groups:
        raise PitstopError(_nothing(path))
    runs: list[Run] = []
    empty: list[str] = []  # what is wrong with logs of which no number could be read
    for (name, kind), of_run in groups.items():
        run, problems = _run(name, kind, of_run, tick)
        skipped += problems
        if run.series:
            runs.append(run)
        elif run.torn:
            empty.append(run.torn)
    if not runs and skipped:
        raise PitstopError(f"{skipped[0]}: give a log that you may read")
    if not runs and empty:
        raise PitstopError(f"no number can be read in {empty[0]}")
    if not runs:
        raise PitstopError(f"{path}: no numbers are logged here: look again when a step is done")
    return Logs(tuple(joined(runs, path.resolve().name)), (*skipped, *empty))


def _files(path: Path) -> tuple[list[Path], list[str]]:
    """Every file below a path, in order, and what could not be opened."""
    skipped: list[str] = []
    if not path.is_dir():
        try:
            path.stat()
        except OSError as error:
            reason = error.strerror or error
            raise PitstopError(f"{path}: {reason}: give a log or a folder of logs") from None
        return [path], skipped
    found = []

    def refused(error: OSError) -> None:
        skipped.append(f"{error.filename}: {error.strerror}")

    for folder, inside, names in os.walk(path, onerror=refused):
        inside[:] = sorted(name for name in inside if name not in NOT_LOGS)
        found += [Path(folder) / name for name in sorted(names)]
    if skipped and not found:
        raise PitstopError(f"{skipped[0]}: give a folder that you may read")
    return found, skipped


def _kind(file: Path) -> Kind | None:
    """By its name; numbers in a table are told apart from other tables when they are read."""
    if "tfevents" in file.name:
        return EVENTS
    if file.name == "trainer_state.json":
        return STATE
    if file.suffix in {".jsonl", ".ndjson"}:
        return JSON_LINES
    if (file.suffix == ".json" or file.name == "log.txt") and _holds_objects(file):
        return JSON_LINES
    return {".csv": CSV, ".tsv": CSV, ".wandb": WANDB}.get(file.suffix)


def _holds_objects(file: Path) -> bool:
    """Whether the first lines are objects, each by itself; one will do where the name says log."""
    try:
        with open_regular(file) as stream:
            lines = [line for line in (stream.readline(LONGEST_FIRST) for _ in range(2)) if line]
    except OSError:
        return False
    named_for_it = file.name in {"metrics.json", "scalars.json", "log.json", "log.txt"}
    enough = len(lines) > 1 or named_for_it
    return enough and all(line[:1] == b"{" and line.rstrip()[-1:] == b"}" for line in lines)


def _name(path: Path, file: Path, kind: Kind) -> str:
    """What people call the run: its folder, or the file where a folder holds several."""
    if file == path:
        return file.name
    where = file.relative_to(path)
    if kind is STATE:  # the newest checkpoint tells of all steps
        return str(where.parent.parent if "checkpoint" in where.parent.name else where.parent)
    if kind is WANDB:
        return where.parent.name or where.stem
    if kind is EVENTS or where.name == "metrics.csv":
        return str(where.parent)
    return str(where)


def _run(name: str, kind: Kind, files: list[Path], tick: Tick) -> tuple[Run, list[str]]:
    builder, torn, skipped = Builder(), "", []
    if kind is STATE:
        files = [max(files, key=_checkpoint)]
    for file in files:
        try:
            with open_regular(file) as stream:
                if stream.read(len(LFS_POINTER)) == LFS_POINTER:
                    raise TornError("a pointer of Git LFS: run git lfs pull")
                stream.seek(0)
                builder.add(_ticking(kind.reader(stream), stream, tick))
        except TornError as error:
            torn = f"{file.name}: {error}"
        except OSError as error:
            skipped.append(f"{file}: {error.strerror or error}")
    return builder.run(name, kind.name, torn), skipped


def _ticking(points: Iterator[Point], stream: BinaryIO, tick: Tick) -> Iterator[Point]:
    before = 0
    for index, point in enumerate(points):
        yield point
        if index % TICK_POINTS == 0:
            here = os.lseek(stream.fileno(), 0, os.SEEK_CUR)
            tick(here - before)
            before = here


def _checkpoint(file: Path) -> tuple[int, float]:
    digits = file.parent.name.rpartition("-")[2]
    return (int(digits) if digits.isdigit() else 0, file.stat().st_mtime)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if _kind(file) else 0
    except OSError:
        return 0


def _nothing(path: Path) -> str:
    known = "events.out.tfevents.*, *.csv, *.jsonl, *.wandb, trainer_state.json, metrics.json"
    if path.is_dir():
        return f"{path}: no log is in this folder: known are {known}"
    return f"{path}: not a log that is known: known are {known}"
