"""Made: which line of the user's built an object, whoever else had a hand in it."""

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from pitstop.profile.source.lines import NOWHERE, Place, origin_of, user_line

BUILDING = {"__init__", "call"}  # the second is ours, put in the place of an ``__init__``


class Places:
    """The lines that built some objects. Keeps none of them alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Callable[[], Any], Place]] = {}

    def put(self, subject: Any, place: Place) -> None:
        """Remember where an object was built."""
        self._known[id(subject)] = reference(subject), place

    def of(self, subject: Any) -> Place | None:
        """Where an object was built, if that was seen."""
        living, place = self._known.get(id(subject), (lambda: None, None))
        return place if living() is subject else None

    def living(self) -> list[Any]:
        """The objects that still exist."""
        found = [living() for living, _ in self._known.values()]
        return [each for each in found if each is not None]


def built(subject: Any) -> tuple[Place, bool]:
    """The line that builds ``subject`` right now, and whether the user's code does so itself.

    Called from within its ``__init__``; those of subclasses, the user's own too, are passed over.
    """
    outermost: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in BUILDING and _first_argument(frame) is subject:
            outermost = frame
        frame = frame.f_back
    caller = outermost.f_back if outermost else None
    if caller is None:
        return NOWHERE, False
    return user_line(caller), origin_of(caller.f_code.co_filename) == "user"


def reference(subject: Any) -> Callable[[], Any]:
    """A weak reference; a strong one to what allows none, such as a list used as a dataset."""
    try:
        return weakref.ref(subject)
    except TypeError:
        return lambda: subject


def _first_argument(frame: FrameType) -> Any:
    names = frame.f_code.co_varnames
    first = frame.f_locals.get(names[0]) if names else None
    ours = frame.f_code.co_name == "call" and isinstance(first, tuple)
    return first[0] if ours and first else first
