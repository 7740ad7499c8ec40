"""LMDB: keys, and values opened as files are; in a process of its own, which damage may end.

LMDB maps its file into memory. A file that was cut short ends whoever reads behind its end, with a
signal and not with an error.
"""

import importlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pitstop.core.units import milliseconds
from pitstop.data.dataset import Examples, Problem, Store
from pitstop.data.names import checksum
from pitstop.data.pictures import decode
from pitstop.data.tensors import UnreadableError, arrays_of, bad_number
from pitstop.data.walk import more

MOST_KEYS = 1_000_000  # compared with those of the stores beside it
OPENED = 500  # values, spread evenly
BEGINNINGS = {  # of a value that is a file, and the suffix that such a file has
    b"\x89PNG": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"RIFF": ".webp",
    b"BM": ".bmp",
    b"\x93NUMPY": ".npy",
}
COUNTS = {b"__len__", b"__keys__", b"num-samples", b"length", b"nSamples"}  # what others keep there
ALIKE = 0.8  # of the keys of two stores: they hold the same samples


@dataclass(frozen=True, slots=True)
class Lmdb:
    """A store, and its keys as checksums."""

    store: Store
    keys: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Values:
    """What the opened values are like."""

    shapes: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, Examples] = field(default_factory=lambda: defaultdict(Examples))
    bad: dict[str, Examples] = field(default_factory=lambda: defaultdict(Examples))
    unknown: int = 0
    opened: int = 0
    decode_ms: list[float] = field(default_factory=list)

    def add(self, name: str, value: bytes) -> None:
        """One more value."""
        self.opened += 1
        if not value:
            self.unreadable["empty"] = more(self.unreadable["empty"], name)
            return
        suffix = next((each for start, each in BEGINNINGS.items() if value.startswith(start)), "")
        try:
            self._open(name, value, suffix)
        except UnreadableError as error:
            self.unreadable[str(error)] = more(self.unreadable[str(error)], name)

    def _open(self, name: str, value: bytes, suffix: str) -> None:
        if suffix == ".npy":
            for array in arrays_of(value, suffix):
                self.shapes[f"{array.dtype} {array.shape}"] += 1
                if bad := bad_number(array):
                    self.bad[bad] = more(self.bad[bad], name)
        elif suffix and (picture := decode(value, suffix)):
            self.shapes[f"{picture.width}x{picture.height} {picture.mode}"] += 1
            if picture.decode_ms is not None:
                self.decode_ms.append(picture.decode_ms)
        else:
            self.unknown += not suffix

    def strangers(self, names: list[str]) -> Iterator[Problem]:
        """Values that are no file, where most others are."""
        if names and len(names) <= (1 - ALIKE) * self.opened:
            first = tuple(names[:3])
            yield Problem("neither a picture nor a tensor", Examples(len(names), first))


def read_lmdb(here: Path, path: str) -> Lmdb:
    """The store in a folder; damage to it is a fact about it."""
    size = (here / "data.mdb").stat().st_size
    try:
        importlib.import_module("lmdb")
    except ImportError:
        note = "lmdb is not installed: keys were not read"
        return Lmdb(Store("LMDB", path, bytes=size, note=note))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(_read, here, path, size).result()
        except BrokenProcessPool:
            return Lmdb(_broken(path, size, "cut short"))


def differing(stores: list[Lmdb]) -> list[Store]:
    """The stores, each with the keys that it lacks and one beside it has."""
    return [_with_missing(one, [other for other in stores if other is not one]) for one in stores]


def _with_missing(one: Lmdb, others: list[Lmdb]) -> Store:
    for other in others:
        larger = max(len(one.keys), len(other.keys))
        missing = len(other.keys - one.keys)
        if missing and len(one.keys & other.keys) >= ALIKE * larger:
            lack = "1 key is" if missing == 1 else f"{missing:,} keys are"
            what = f"{lack} missing that {other.store.path} has"
            problem = Problem(what, Examples(1, (one.store.path,)), one.store.path)
            return replace(one.store, absent=(*one.store.absent, problem))
    return one.store


def _read(here: Path, path: str, size: int) -> Lmdb:
    lmdb = importlib.import_module("lmdb")
    try:
        environment = lmdb.open(str(here), readonly=True, lock=False, readahead=False, max_dbs=0)
        with environment, environment.begin() as transaction:
            return _opened(transaction, here, path, size)
    except lmdb.Error as error:
        return Lmdb(_broken(path, size, str(error).rpartition(":")[2].strip() or "broken inside"))


def _broken(path: str, size: int, why: str) -> Store:
    found = Examples(1, (f"{path}/data.mdb".lstrip("/"),))
    return Store("LMDB", path, bytes=size, unreadable=(Problem(why, found),))


def _opened(transaction: Any, here: Path, path: str, size: int) -> Lmdb:
    entries = int(transaction.stat()["entries"])
    values, keys, strangers = _Values(), set[int](), list[str]()
    every = max(1, entries // OPENED)
    with transaction.cursor() as cursor:
        for index, key in enumerate(cursor.iternext(keys=True, values=False)):
            if key in COUNTS:
                continue
            name = key.decode("utf-8", "replace")
            if len(keys) < MOST_KEYS:
                keys.add(checksum(name))
            if index % every == 0:
                before = values.unknown
                values.add(f"{path}:{name}".lstrip(":"), cursor.value())
                if values.unknown > before:
                    strangers.append(f"{path}:{name}".lstrip(":"))
    missing = _missing_keys(here / "meta_info.txt", transaction)
    absent = (Problem("keys of meta_info.txt missing", missing, path),) if missing else ()
    unreadable = [Problem(what, files) for what, files in values.unreadable.items()]
    unreadable += values.strangers(strangers)
    bad = tuple(Problem(what, files) for what, files in values.bad.items())
    store = Store(
        "LMDB", path, entries, size, _note(values, transaction), absent, tuple(unreadable), bad
    )
    return Lmdb(store, frozenset(keys))


def _note(values: _Values, transaction: Any) -> str:
    if values.shapes:
        shape, often = values.shapes.most_common(1)[0]
        took = (
            milliseconds(sum(values.decode_ms) / len(values.decode_ms)) if values.decode_ms else ""
        )
        pace = f", {took} to decode one on one core" if took else ""
        return f"{values.opened:,} values were opened: {often:,} are {shape}{pace}"
    with transaction.cursor() as cursor:
        if not cursor.first():
            return ""
        return f"its first key is {cursor.key()[:60]!r}, {len(cursor.value()):,} bytes"


def _missing_keys(meta: Path, transaction: Any) -> Examples:
    """Keys that BasicSR's list names, ``0001.png (480,640,3) 1`` a line, and the store lacks."""
    missing = Examples()
    if not meta.is_file():
        return missing
    with meta.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name = line.partition(" ")[0].strip()
            key = name.rpartition(".")[0] or name
            if key and transaction.get(key.encode()) is None:
                missing = more(missing, key)
    return missing
