"""Changes: what the tuner may try on a script, from outside. This file needs no torch.

A change is a function that is given the running script, once torch is there, and asks to be called
when a loader, an optimizer or a model is made or used. It travels to a fresh process as its name
and its options.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pitstop.tune.script import Script

Effect = Literal["exact", "rounding", "other-randomness", "changes-training"]
Goal = Literal["time", "memory"]
Value = str | int | float | bool
Options = Mapping[str, Value]

NO_OPTIONS: Options = {}


@dataclass(frozen=True, slots=True)
class Change:
    """A named change. ``effect`` says what becomes of the numbers, and so how they are guarded."""

    name: str
    effect: Effect
    helps: tuple[Goal, ...]
    doc: str
    apply: Callable[["Script"], None]  # in the script's process, before its first own line of torch
    precision: str = "float32"  # what it computes in: how much rounding is to be expected
    variants: Callable[[int], Iterator[Options]] | None = None  # options to try, for so many cores
    environment: Callable[[Options], Mapping[str, str]] | None = None  # set before Python starts

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.doc.partition("\n")[0]

    def tries(self, cores: int) -> list[Options]:
        """The options to try one after the other; most changes have none."""
        return list(self.variants(cores)) if self.variants else [NO_OPTIONS]


def change(
    effect: Effect,
    helps: tuple[Goal, ...] = ("time",),
    precision: str = "float32",
    variants: Callable[[int], Iterator[Options]] | None = None,
    environment: Callable[[Options], Mapping[str, str]] | None = None,
) -> Callable[[Callable[["Script"], None]], Change]:
    """Turn a function of the running script into a change named after it."""

    def wrap(apply: Callable[["Script"], None]) -> Change:
        name = apply.__name__.replace("_", "-")
        doc = inspect.cleandoc(apply.__doc__ or "")
        return Change(name, effect, helps, doc, apply, precision, variants, environment)

    return wrap


def load_changes(package: ModuleType) -> list[Change]:
    """Import every module of ``package``; return the one change each must define, by name."""
    changes = []
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        stem = info.name.rpartition(".")[2]
        found = getattr(importlib.import_module(info.name), stem, None)
        if not isinstance(found, Change):
            raise TypeError(f"{info.name}: expected a function {stem!r} decorated with @change")
        changes.append(found)
    return sorted(changes, key=lambda each: each.name)
