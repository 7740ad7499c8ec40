"""Numbered: small ones for the optimizers, loaders and modules of a run, given at first sight."""

from collections.abc import Callable
from typing import Any

from pitstop.profile.hooks.made import reference
from pitstop.profile.record.writer import Writer


class Numbers:
    """Counts objects without keeping them alive; their first use writes what they are."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: dict[int, tuple[int, Callable[[], Any]]] = {}  # by id
        self._count = -1

    def next(self) -> int:
        """The next number."""
        self._count += 1
        return self._count

    def of(self, subject: Any) -> int | None:
        """The number of an object, if it has one."""
        known = self._known.get(id(subject))
        return known[0] if known is not None and known[1]() is subject else None

    def give(self, subject: Any, description: dict[str, Any]) -> int:
        """A number for an object that has none."""
        number = self.next()
        self._known[id(subject)] = number, reference(subject)
        self._writer.line_now({"number": number, **description})
        return number
