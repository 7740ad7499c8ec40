"""Stand-ins: what takes the place of a function of ``os``, of a class, or of what these return."""

import os
import threading
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import TracebackType
from typing import Any

Function = Callable[..., Any]
Undo = Callable[[], None]

_busy = threading.local()  # whether this thread asks the overlay, which itself needs the real os


class Stand:
    """Stands in for a function or a class, and is like it: not bound when stored in a class."""

    def __init__(self, original: Function, around: Function) -> None:
        update_wrapper(self, original)
        self._around = around

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Do what stands in for it."""
        return self._around(*arguments, **options)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.__wrapped__)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["__wrapped__"], name)

    def __mro_entries__(self, _: object) -> tuple[Any, ...]:
        return (self.__wrapped__,)


class Listing:
    """What ``os.scandir`` gives, for a folder that looks different to the script."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "Listing":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget what was not asked for."""
        self._entries = iter(())


class Entry:
    """What ``os.scandir`` gives for each name."""

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(folder, name)

    def __fspath__(self) -> str:
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """What the script sees there."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """Its number."""
        return self.stat(follow_symlinks=False).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return os.path.isdir(self.path) and (follow_symlinks or not self.is_symlink())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return os.path.isfile(self.path) and (follow_symlinks or not self.is_symlink())

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return os.path.islink(self.path)


class asking:  # noqa: N801 reads as the statement it is used in
    """While this thread asks the overlay, the functions of ``os`` are the real ones."""

    def __enter__(self) -> None:
        _busy.on = True

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _busy.on = False


def stand_in(around: Function, original: Function) -> Function:
    """A stand-in that calls ``around(original, ...)``, but not for what the overlay itself does."""

    def call(*arguments: Any, **options: Any) -> Any:
        descriptors = (options.get(name) for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"))
        if getattr(_busy, "on", False) or any(each is not None for each in descriptors):
            return original(*arguments, **options)
        return around(original, *arguments, **options)

    return Stand(original, call)


def put(owner: Any, name: str, build: Function) -> Undo:
    """Replace an attribute, also in the sets of ``os.supports_...`` that hold the original."""
    original = vars(owner)[name]
    replacement = build(original)
    setattr(owner, name, replacement)
    kin = [each for key, each in vars(os).items() if key.startswith("supports_")]
    sets = [each for each in kin if isinstance(each, set) and any(one is original for one in each)]
    for each in sets:
        each.add(replacement)

    def undo() -> None:
        setattr(owner, name, original)
        for each in sets:
            each.discard(replacement)

    return undo
