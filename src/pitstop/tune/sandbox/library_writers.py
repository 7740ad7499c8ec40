"""Library writers: functions of other libraries that open files out of Python's sight.

Each row names a function and which of its arguments is a path. A module that is not there yet is
attended to when the script imports it.
"""

import os
from dataclasses import dataclass
from functools import partial, update_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote, unquote

from pitstop.tune.sandbox.overlay import Overlay
from pitstop.tune.sandbox.stand_ins import Function, Stand, Undo, asking, put

LOG = "-wal"  # what SQLite calls the file of what it has not put into the database yet


@dataclass(frozen=True, slots=True)
class Writer:
    """A function that opens a path; what it does to it, unless its mode tells."""

    module: str
    name: str  # within the module, with dots
    place: int  # of the path among its arguments
    keyword: str
    does: str = "write"  # "write", "edit", "read" or "database"
    mode: tuple[int, str, str | bool] | None = (
        None  # the argument that tells, and what it is mostly
    )


WRITERS = (
    Writer("torch", "_C.PyTorchFileWriter", 0, "file_name"),  # torch.save, torch.export.save
    Writer("torch", "_C.ScriptModule.save", 1, "filename"),
    Writer("torch", "load", 0, "f", "read"),
    Writer("torch", "from_file", 0, "filename", mode=(1, "shared", False)),
    Writer("torch.jit", "load", 0, "f", "read"),
    Writer("torch.profiler.profiler", "_KinetoProfile.export_chrome_trace", 1, "path"),
    Writer("torch.autograd.profiler", "profile.export_chrome_trace", 1, "path"),
    Writer("torch.distributed.rendezvous", "FileStore", 0, "file_name", "edit"),
    Writer("torch.utils.tensorboard.writer", "FileWriter.__init__", 1, "log_dir", "edit"),
    Writer("safetensors", "serialize_file", 1, "filename"),
    Writer("safetensors", "safe_open", 0, "filename", "read"),
    Writer("safetensors.torch", "serialize_file", 1, "filename"),
    Writer("safetensors.torch", "safe_open", 0, "filename", "read"),
    Writer("safetensors.numpy", "serialize_file", 1, "filename"),
    Writer("cv2", "imwrite", 0, "filename"),
    Writer("cv2", "imread", 0, "filename", "read"),
    Writer("cv2", "VideoWriter", 0, "filename"),
    Writer("cv2", "VideoCapture", 0, "filename", "read"),
    Writer("h5py", "File.__init__", 1, "name", mode=(2, "mode", "r")),
    Writer("av", "open", 0, "file", mode=(1, "mode", "r")),
    Writer("torchvision.io.image", "write_file", 0, "filename"),
    Writer("imageio_ffmpeg", "write_frames", 0, "path"),
    Writer("sqlite3", "connect", 0, "database", "database"),
    Writer("sqlite3.dbapi2", "connect", 0, "database", "database"),
)


def attend(module: ModuleType, overlay: Overlay, undos: list[Undo]) -> None:
    """Replace the functions of a module that write out of Python's sight."""
    for writer in WRITERS:
        if writer.module == module.__name__:
            *parents, name = writer.name.split(".")
            owner: Any = module
            for parent in parents:
                owner = getattr(owner, parent, None)
            original = getattr(owner, name, None)
            if original is not None and not isinstance(original, Stand):
                undos.append(put(owner, name, partial(_writer, overlay, writer)))


def _writer(overlay: Overlay, writer: Writer, original: Function) -> Function:
    def call(*arguments: Any, **options: Any) -> Any:
        given = list(arguments)
        place: Any = writer.place if writer.place < len(given) else writer.keyword
        holder: Any = given if place == writer.place else options
        path = holder[place] if holder is given else options.get(place)
        if isinstance(path, str | os.PathLike) and not _is_no_path(path):
            with asking():
                found = _by_does(overlay, path, writer, given, options)
            holder[place] = os.fspath(found) if isinstance(path, str) else Path(found)
        return original(*given, **options)

    if isinstance(original, type) or "." not in writer.name:
        return Stand(original, call)
    return update_wrapper(call, original)  # a method, which must be bound


def _by_does(
    overlay: Overlay, path: Any, writer: Writer, given: list[Any], options: dict[str, Any]
) -> Any:
    if writer.mode:
        place, keyword, usual = writer.mode
        mode = given[place] if place < len(given) else options.get(keyword) or usual
        return by_mode(overlay, path, _as_of_open(mode))
    if writer.does == "database":
        return _database(overlay, os.fspath(path))
    if writer.does == "read":
        return overlay.visible(path)
    return overlay.writable(path, keep=writer.does == "edit")


def _as_of_open(mode: str | bool) -> str:
    """A mode of other functions: with ``r+`` the file is there, a truth is whether it is shared."""
    return ("a" if mode else "r") if isinstance(mode, bool) else mode.replace("r+", "a")


def _database(overlay: Overlay, name: str) -> str:
    """Where to open a database of SQLite, which may be a URI, and has a log beside it."""
    scheme, path, query = "", name, ""
    if name.startswith("file:"):
        scheme, (path, mark, rest) = "file:", name.removeprefix("file:").partition("?")
        path, query = unquote(path.removeprefix("//localhost").removeprefix("//")), mark + rest
    if "mode=memory" in query or path in {"", ":memory:"}:
        return name
    if "mode=ro" in query or "immutable=1" in query:
        found = overlay.visible(path)
    else:
        found = overlay.writable(path)
        if os.path.exists(overlay.visible(f"{path}{LOG}")):
            overlay.writable(f"{path}{LOG}")
    return f"file:{quote(found)}{query}" if scheme else os.fspath(found)


def _is_no_path(path: Any) -> bool:
    """An address such as ``rtsp://...``, a database in memory."""
    text = os.fspath(path)
    return text.startswith(":") or ("://" in text and not text.startswith("file:"))


def by_mode(overlay: Overlay, path: Any, mode: Any) -> Any:
    """Where to open a path in this mode of ``open``."""
    if "x" in mode:
        return overlay.exclusive(path)
    if "w" in mode:
        return overlay.writable(path, keep=False)
    return overlay.writable(path) if {"a", "+"} & set(mode) else overlay.visible(path)
