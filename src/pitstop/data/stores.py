"""Stores: datasets that are not a file per sample: LMDB, COLMAP and Gaussian scenes."""

import os
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pitstop.data.dataset import Examples, Folder, Problem, Store
from pitstop.data.layout import SPLIT
from pitstop.data.lmdb_store import Lmdb, differing, read_lmdb
from pitstop.data.tensors import Array, bad_number
from pitstop.data.walk import more

PLY_NUMBERS = {
    "char": 1, "uchar": 1, "int8": 1, "uint8": 1, "short": 2, "ushort": 2, "int16": 2, "uint16": 2,
    "int": 4, "uint": 4, "int32": 4, "uint32": 4, "float": 4, "float32": 4, "double": 8,
    "float64": 8,
}  # fmt: skip
MOST_NAMES = 1_000_000  # pictures of one reconstruction
CHUNK_BYTES = 16_000_000
LONGEST_NAME = 4096


def stores_of(root: Path, folders: Iterable[Folder]) -> Iterator[Store]:
    """The stores among the folders."""
    beside: dict[tuple[str, str], list[Lmdb]] = defaultdict(list)
    for folder in folders:
        if folder.others or folder.files:
            yield from _in_folder(root, folder.path)
        if (root / folder.path / "data.mdb").is_file():
            above, _, name = folder.path.rpartition("/")
            split = SPLIT.match(name.removesuffix(".lmdb"))
            key = above, split["split"].lower() if split else ""
            beside[key].append(read_lmdb(root / folder.path, folder.path))
    for stores in beside.values():
        yield from differing(stores)


def _in_folder(root: Path, path: str) -> Iterator[Store]:
    here = root / path
    for name in ("images.bin", "images.txt"):
        if (here / name).is_file() and (here / f"cameras{name[-4:]}").is_file():
            yield _unless_broken(partial(_colmap, root, here / name, path), "COLMAP", path)
            break
    if (here / "point_cloud.ply").is_file():
        name = f"{path}/point_cloud.ply".lstrip("/")
        yield _unless_broken(partial(_gaussians, here / "point_cloud.ply", name), "Gaussians", name)


def _unless_broken(read: Callable[[], Store], layout: str, path: str) -> Store:
    """The store; what a damaged length or name leads to is a fact about it."""
    try:
        return read()
    except (OSError, ValueError, OverflowError, struct.error):
        return Store(layout, path, unreadable=(Problem("cut short", Examples(1, (path,))),))


def _colmap(root: Path, listing: Path, path: str) -> Store:
    pictures = next((each for each in _picture_folders(root, path) if each.is_dir()), None)
    missing, entries = Examples(), 0
    with listing.open("rb") as stream:
        names = _names_bin(stream) if listing.suffix == ".bin" else _names_txt(stream)
        for name in names:
            entries += 1
            if pictures and not (pictures / name).is_file():
                missing = more(missing, f"{pictures.relative_to(root)}/{name}")
    note = "" if pictures else "no folder images beside it: its pictures were not looked for"
    absent = (Problem("listed by COLMAP, missing", missing, path),) if missing else ()
    return Store("COLMAP", path, entries, listing.stat().st_size, note, absent)


def _picture_folders(root: Path, path: str) -> Iterator[Path]:
    """``images`` beside ``sparse/0``, going up to the dataset's own folder."""
    here = root / path
    while True:
        yield here / "images"
        if here == root:
            return
        here = here.parent


def _names_bin(stream: BinaryIO) -> Iterator[str]:
    size = os.fstat(stream.fileno()).st_size
    (number,) = struct.unpack("<Q", stream.read(8))
    for _ in range(min(number, MOST_NAMES)):
        struct.unpack("<idddddddi", stream.read(64))
        name = bytearray()
        while (letter := stream.read(1)) != b"\0":
            if not letter or len(name) > LONGEST_NAME:
                raise ValueError("a name without an end")
            name += letter
        (points,) = struct.unpack("<Q", stream.read(8))
        if stream.seek(24 * points, os.SEEK_CUR) > size:
            raise ValueError("points beyond the end")
        yield name.decode("utf-8", "replace")


def _names_txt(stream: BinaryIO) -> Iterator[str]:
    lines = (line for line in stream if not line.startswith(b"#"))
    for index, line in enumerate(lines):
        words = line.split(maxsplit=9)
        if index % 2 == 0 and words:
            if len(words) < 10:
                raise ValueError("a line without a name")
            yield words[9].decode("utf-8", "replace").strip()


def _gaussians(path: Path, name: str) -> Store:
    size = path.stat().st_size
    with path.open("rb") as stream:
        header = _ply_header(stream)
        if header is None:
            found = Examples(1, (name,))
            return Store("Gaussians", name, unreadable=(Problem("no PLY header", found),))
        number, widths, floats = header
        stride, begin = sum(widths), stream.tell()
        if size - begin < number * stride:
            found = Examples(1, (name,))
            return Store("Gaussians", name, number, size, unreadable=(Problem("cut short", found),))
        bad = _bad_values(stream, number * stride) if floats else ""
    problem = (Problem(bad, Examples(1, (name,))),) if bad else ()
    return Store("Gaussians", name, number, size, non_finite=problem)


def _bad_values(stream: BinaryIO, size: int) -> str:
    """Splats are float32 throughout."""
    while size > 0 and (data := stream.read(min(CHUNK_BYTES, size))):
        size -= len(data)
        if bad := bad_number(Array("float32", (len(data) // 4,), data)):
            return bad
    return ""


def _ply_header(stream: BinaryIO) -> tuple[int, list[int], bool] | None:
    """Vertices, the bytes of each property, and whether all are float32; None: another kind."""
    if stream.readline(16).strip() != b"ply":
        return None
    number, widths, binary, types = 0, [], False, set()
    for _ in range(1000):
        words = stream.readline(1000).decode("ascii", "replace").split()
        match words:
            case ["format", kind, *_]:
                binary = kind == "binary_little_endian"
            case ["element", "vertex", count] if count.isdigit():
                number = int(count)
            case ["property", kind, _] if kind in PLY_NUMBERS:
                widths.append(PLY_NUMBERS[kind])
                types.add(kind)
            case ["end_header"]:
                return (number, widths, types <= {"float", "float32"}) if binary else (0, [], False)
    return None
