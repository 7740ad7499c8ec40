"""Redirect: what the script writes goes to a folder of ours, and the script does not notice.

In place of the functions of ``os`` and of ``open`` stand ones that ask an ``Overlay`` for the path.
Libraries that open files in C++ or Rust are listed in ``library_writers``. Forked workers inherit
all this; other Python processes of the script get it through ``sitecustomize``, as it did.

Not covered, and left to ``landlock``: programs that are not Python (ffmpeg, rsync), calls with
``dir_fd``, libraries not in ``library_writers``. Modules that a script writes are
not found by its imports.
"""

import glob
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from pitstop.profile.hooks.executed import when_executed
from pitstop.tune.sandbox.caches import caches
from pitstop.tune.sandbox.library_writers import WRITERS, attend, by_mode
from pitstop.tune.sandbox.overlay import Overlay
from pitstop.tune.sandbox.stand_ins import Entry, Listing, Undo, asking, put, stand_in

Function = Callable[..., Any]

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
READING = ("stat", "lstat", "access", "statvfs", "listxattr", "getxattr")
EDITING = ("truncate", "utime", "chmod", "chown", "lchown", "setxattr", "removexattr")
CREATING = ("mkfifo", "mknod")
HELD = ("lstat", "scandir")  # that a class of Python's may hold as well
SYSTEM = ("posix", "nt")  # what imports look for files with: that must stay as it is

_active: dict[str, Undo] = {}  # the folder in use, and how to stop using it


def redirect(folder: str | Path, alone: tuple[Path, ...] = ()) -> Undo:
    """Send all writing to ``folder``; return how to undo that. A second call changes nothing."""
    key = os.path.realpath(folder)
    if key in _active:
        return _active[key]
    overlay = Overlay(Path(folder), (*alone, *caches()))
    undos = [put(owner, name, build) for owner, name, build in _python(overlay)]
    for name in sorted({writer.module for writer in WRITERS}):
        undos.append(when_executed(name, partial(attend, overlay=overlay, undos=undos)))
    undos.append(put(shutil, "_use_fd_functions", lambda _: False))  # else rmtree never names paths

    def undo() -> None:
        while undos:
            undos.pop()()
        _active.pop(key, None)

    _active[key] = undo
    return undo


def _python(overlay: Overlay) -> Iterator[tuple[Any, str, Function]]:
    """What is replaced in Python itself: owner, name, and how to build the replacement."""
    file = partial(_open_file, overlay)
    globber = getattr(glob, "_StringGlobber", None)  # of `Path.glob` with Python 3.13
    held = [each for each in HELD if getattr(globber, each, None) is getattr(os, each)]
    stands: dict[str, Function] = {
        **{name: partial(_first, overlay.visible) for name in READING},
        **{name: partial(_first, overlay.writable) for name in EDITING},
        **{name: partial(_first, overlay.exclusive) for name in CREATING},
        "open": partial(_open_descriptor, overlay),
        "mkdir": partial(_instead, overlay.make_folder),
        "remove": partial(_instead, overlay.remove),
        "unlink": partial(_instead, overlay.remove),
        "rmdir": partial(_instead, overlay.remove_folder),
        "rename": partial(_instead, overlay.move),
        "replace": partial(_instead, overlay.move),
        "link": partial(_instead, overlay.link),
        "symlink": partial(_instead, partial(_symlink, overlay)),
        "listdir": partial(_list, overlay),
        "scandir": partial(_scan, overlay),
        "readlink": partial(_give_back, overlay, overlay.visible),
        "getcwd": partial(_give_back, overlay, lambda: None),
        "chdir": partial(_first, partial(_enter, overlay)),
    }
    for name in held:
        yield globber, name, partial(_static, partial(stand_in, stands[name]))
    around: list[tuple[Any, Function]] = [(open, file), (io.FileIO, file)]
    around += [(getattr(os, name), stands[name]) for name in stands if hasattr(os, name)]
    for owner, name, stand in _known({id(each): stand_in(how, each) for each, how in around}):
        yield owner, name, partial(_always, stand)


def _known(stands: Mapping[int, Function]) -> list[tuple[Any, str, Function]]:
    """Where functions are known, and by which name: modules such as bz2 keep some of their own."""
    modules = [(name, each) for name, each in sys.modules.items() if isinstance(each, ModuleType)]
    return [
        (module, name, stands[id(value)])
        for known_as, module in modules
        if known_as not in SYSTEM and not known_as.startswith("pitstop.")
        for name, value in vars(module).items()
        if id(value) in stands
    ]


def _always(stand: Function, _: Function) -> Function:
    return stand


def _static(build: Function, method: Any) -> Any:
    return staticmethod(build(method.__func__))


def _first(find: Function, original: Function, path: Any = ".", *rest: Any, **options: Any) -> Any:
    """Call the original with another path."""
    path = options.pop("path", path)
    with asking():
        found = find(path)
    return original(found, *rest, **options)


def _instead(action: Function, original: Function, *arguments: Any, **options: Any) -> None:  # noqa: ARG001
    options.pop("dir_fd", None)
    with asking():
        action(*arguments, **_renamed(options))


def _renamed(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments by our names for them."""
    ours = {"path": "name", "src": "source", "dst": "target"}
    dropped = ("src_dir_fd", "dst_dir_fd", "follow_symlinks")
    return {ours.get(key, key): value for key, value in options.items() if key not in dropped}


def _symlink(overlay: Overlay, source: Any, target: Any, *_: Any, **__: Any) -> None:
    overlay.link_symbolically(source, target)


def _open_file(overlay: Overlay, original: Function, file: Any, *rest: Any, **options: Any) -> Any:
    mode = rest[0] if rest else options.get("mode", "r")
    if options.get("opener") is None:  # which asks us itself
        with asking():
            file = by_mode(overlay, file, mode)
    return original(file, *rest, **options)


def _open_descriptor(
    overlay: Overlay, original: Function, path: Any, flags: int, *rest: Any, **options: Any
) -> int:
    with asking():
        if not flags & WRITES:
            path = overlay.visible(path)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            path = overlay.exclusive(path)
        elif flags & os.O_CREAT or os.path.lexists(overlay.visible(path)):
            path = overlay.writable(path, keep=not (flags & os.O_CREAT and flags & os.O_TRUNC))
        else:
            path = overlay.visible(path)  # and the caller fails, as nothing is there
    return int(original(path, flags, *rest, **options))


def _list(overlay: Overlay, original: Function, path: Any = ".") -> Any:
    path = "." if path is None else path
    with asking():
        if isinstance(path, bytes) or not overlay.is_touched(path):
            return original(path)
        return overlay.names(path)


def _scan(overlay: Overlay, original: Function, path: Any = ".") -> Any:
    path = "." if path is None else path
    with asking():
        if isinstance(path, bytes) or not overlay.is_touched(path):
            return original(path)
        names = overlay.names(path)
    return Listing([Entry(os.fspath(path), name) for name in names])


def _give_back(overlay: Overlay, find: Function, original: Function, *given: Any, **_: Any) -> Any:
    """Call the original, and say what it found by the name that the script knows."""
    with asking():
        found = original(find(*given)) if given else original()
    return overlay.original(found) if isinstance(found, str) else found


def _enter(overlay: Overlay, path: Any) -> Any:
    """The user's folder where there is one, so that programs in other languages find it too."""
    full = overlay.full(path)
    return full if full is not None and os.path.isdir(full) else overlay.visible(path)
