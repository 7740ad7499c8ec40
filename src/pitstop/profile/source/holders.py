"""Holders: the name under which the script keeps an object alive."""

import gc
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from inspect import CO_OPTIMIZED
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from pitstop.profile.source.lines import origin_of

DEPTH = 6  # a tensor in the closure of a function in a list: further up nothing is kept by design
CLOSURES = (CellType, FunctionType, MethodType, partial)  # a function that remembers an object
CONTAINERS = (list, tuple, set, dict, deque, *CLOSURES)
MANY = 5  # objects of one kind in a list: by now there is a record of each step so far
MOST_REFERRERS = 1000  # an object that so many hold is no tensor that was put away


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps an object: its name, and where that name is used."""

    name: str = ""
    path: str = ""  # the file in which the name stands
    code: CodeType | None = None  # the function whose variable it is
    owner: tuple[Any, ...] = ()  # the object whose attribute it is


class Holders:
    """Looks for the names of objects, in the variables of running functions first."""

    def __init__(self, frame: FrameType | None) -> None:
        self._variables = dict(_variables(frame))

    def of(self, subject: Any) -> Holder:
        """The nearest name above an object; none where only torch itself keeps it."""
        level, seen, nearest = [subject], {id(subject)}, Holder()
        for _ in range(DEPTH):
            for each in level:
                if id(each) in self._variables:
                    return self._variables[id(each)]
            above = self._above(level, seen)
            level = [holder for holder, _ in above if isinstance(holder, CONTAINERS)]
            for holder, each in above:
                if found := _named(holder, each):
                    if not found.owner or not _is_one_of_many(found.owner[0]):
                        return found
                    nearest, level = found, [*level, *found.owner]
            seen.update(map(id, level))
            if not level:
                break
        return nearest

    def _above(self, level: list[Any], seen: set[int]) -> list[tuple[Any, Any]]:
        """What refers to these objects, and to which of them."""
        referrers = gc.get_referrers(*level)
        hidden = seen | {id(level), id(referrers), id(self._variables)}
        return [
            (holder, each)
            for holder in referrers[:MOST_REFERRERS]
            if id(holder) not in hidden and not isinstance(holder, FrameType)
            for each in level
            if any(referent is each for referent in gc.get_referents(holder))
        ]


def _named(holder: Any, subject: Any) -> Holder | None:
    """A name, where the holder is the variables of a module, of a class or of an object."""
    if isinstance(holder, dict):
        key = next((key for key, value in holder.items() if value is subject), None)
        if not isinstance(key, str):
            return None
        if "__name__" in holder and "__builtins__" in holder:
            return Holder(key, str(holder.get("__file__", "")))
        owner = next((each for each in gc.get_referrers(holder) if _owns(each, holder)), None)
        return _attribute(owner, key) if owner is not None else None
    attributes = None if isinstance(holder, ModuleType | type) else _attributes(holder)
    if attributes is not None:
        key = next((key for key, value in attributes.items() if value is subject), None)
        return _attribute(holder, key) if key else None
    return None


def _owns(owner: Any, variables: dict[Any, Any]) -> bool:
    return not isinstance(owner, FrameType) and _attributes(owner) is variables


def _attributes(owner: Any) -> dict[str, Any] | None:
    """The variables of an object, past any ``__getattr__`` of its own."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _attribute(owner: Any, name: str) -> Holder | None:
    kind = type(owner)
    path = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return Holder(f"self.{name}", path, owner=(owner,)) if origin_of(path) != "hidden" else None


def _is_one_of_many(owner: Any) -> bool:
    """Whether an object lies among others of its kind, as the records of many steps do."""
    among = (each for each in gc.get_referrers(owner) if isinstance(each, list | deque))
    return any(sum(type(one) is type(owner) for one in each) >= MANY for each in among)


def _variables(frame: FrameType | None) -> Iterator[tuple[int, Holder]]:
    """The local variables of the user's running functions, by the id of their value.

    A function that looks at its own variables as a dict could notice us, and is left alone.
    """
    if sys.gettrace() is not None:
        return
    while frame is not None:
        code = frame.f_code
        watched = {"locals", "vars", "eval", "exec", "dir"} & set(code.co_names)
        if code.co_flags & CO_OPTIMIZED and origin_of(code.co_filename) == "user" and not watched:
            variables = frame.f_locals
            for name, value in variables.items():
                yield id(value), Holder(name, code.co_filename, code)
            if isinstance(variables, dict):
                variables.clear()  # before 3.13 it is a copy, and would keep the values alive
        frame = frame.f_back
