"""Changes: what the tuner may try on a script, from outside. This file needs no torch.

A change is a function that is given the running script, once torch is there, and asks to be called
when a loader, an optimizer or a model is made or used. It travels to a fresh process as its name
and its options.
"""

import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from pitstop.core.errors import PitstopError
from pitstop.core.evidence import Evidence
from pitstop.core.plugins import Plugins, load_plugins
from pitstop.tune.plan import Options
from pitstop.tune.ranges import NO_RANGES, Range

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

Effect = Literal["exact", "rounding", "other-randomness", "changes-training"]
Goal = Literal["time", "memory"]
Work = Literal["", "training", "inference"]

NO_OPTIONS: Options = {}
CHANGES = "pitstop.tune.changes"  # the package that holds ours, one per file
GROUP = "pitstop.changes"  # entry points of other packages


@dataclass(frozen=True, slots=True)
class When:
    """Where a change has a chance, and when that shows; all else is tried only by its name."""

    device: Literal["", "cpu", "cuda"] = ""  # the only one on which it can help; empty: any
    work: Work = ""  # likewise
    useless: Callable[[Evidence], str] = lambda _: ""  # why, by what the first run did
    rivals: tuple[str, ...] = ()  # kept changes beside which it makes no sense
    like: tuple[str, ...] = ()  # where one of these fails, or is no gain, so is it
    impossible: Callable[[Evidence], str] = lambda _: ""  # why not, whatever a finding promises
    takes_s: Callable[[Evidence, Options], float] = lambda *_: 0.0  # until its first step is done
    late: bool = False  # each run with it starts slowly: it comes after all that do not
    usual: float = 0.01  # share of the step that it may bring where nothing is promised
    what_if: bool = False  # tried to learn what an edit of the source is worth, and never kept
    beside: tuple[str, ...] = ()  # changes that are no gain by themselves, and may be one with it


ALWAYS = When()


@dataclass(frozen=True, slots=True)
class Facts:
    """What the first run showed: it decides whether a change can apply, and with which options."""

    evidence: Evidence
    device: str = "cpu"
    cores: int = 1
    goal: Goal = "time"

    @property
    def work(self) -> Work:
        """What the steps of the script are for."""
        return "training" if self.evidence.step_kind == "optimizer" else "inference"


Variants = Callable[[Facts], Iterator[Options]]


@dataclass(frozen=True, slots=True)
class Change:
    """A named change. ``effect`` says what becomes of the numbers, and so how they are guarded."""

    name: str
    effect: Effect
    helps: tuple[Goal, ...]
    doc: str
    apply: Callable[["Script"], None]  # in the script's process, before its first own line of torch
    precision: str = "float32"  # what it computes in: how much rounding is to be expected
    toggles: bool = False  # it can be switched on and off between two steps, to be timed
    variants: Variants | None = None  # the options to try, the most promising first
    environment: Callable[[Options], Mapping[str, str]] | None = None  # set before Python starts
    when: When = ALWAYS
    ranges: Mapping[str, Range] = field(default_factory=dict)  # of its options: all that there are

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.doc.partition("\n")[0]

    def tries(self, facts: Facts) -> list[Options]:
        """The options to try, the most promising first; most changes have none."""
        return list(self.variants(facts)) if self.variants else [NO_OPTIONS]


def change(
    effect: Effect,
    helps: tuple[Goal, ...] = ("time",),
    precision: str = "float32",
    toggles: bool = False,
    variants: Variants | None = None,
    environment: Callable[[Options], Mapping[str, str]] | None = None,
    when: When = ALWAYS,
    ranges: Mapping[str, Range] = NO_RANGES,
) -> Callable[[Callable[["Script"], None]], Change]:
    """Turn a function of the running script into a change named after it."""

    def wrap(apply: Callable[["Script"], None]) -> Change:
        doc = inspect.cleandoc(apply.__doc__ or "")
        given = precision, toggles, variants, environment, when, ranges
        return Change(apply.__name__.replace("_", "-"), effect, helps, doc, apply, *given)

    return wrap


def load_changes(package: ModuleType) -> list[Change]:
    """Import every module of ``package``; return the one change each must define, by name."""
    names = [each.name for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    return sorted(map(_load, names), key=lambda each: each.name)


def change_plugins() -> Plugins[Change]:
    """The changes of other packages, named by their entry points in ``pitstop.changes``."""
    return load_plugins(GROUP, Change)


def find_change(name: str) -> Change:
    """The change of that name, ours or a plugin's; only its own file is imported."""
    module = f"{CHANGES}.{name.replace('-', '_')}"
    if importlib.util.find_spec(module):
        return _load(module)
    for plugin in change_plugins().found:
        if plugin.name == name:
            return plugin
    raise PitstopError(f"{name}: no such change; its name is that of a file in {CHANGES}")


def _load(module: str) -> Change:
    stem = module.rpartition(".")[2]
    found = getattr(importlib.import_module(module), stem, None)
    if not isinstance(found, Change):
        raise TypeError(f"{module}: expected a function {stem!r} decorated with @change")
    return found
