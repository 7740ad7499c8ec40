"""Plugins: rules and changes of other packages, named by their entry points."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Plugins(Generic[Kind]):
    """The plugins of one kind that could be loaded, and a line for each that could not."""

    found: tuple[Kind, ...] = ()
    problems: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def load_plugins(group: str, kind: type[Kind]) -> Plugins[Kind]:
    """Load each entry point of a group; whatever goes wrong there is its author's problem."""
    found, problems = [], []
    for entry in entry_points(group=group):
        try:
            plugin = entry.load()
            if not isinstance(plugin, kind):
                raise TypeError(f"it is no function decorated with @{kind.__name__.lower()}")
            found.append(plugin)
        except Exception as error:  # noqa: BLE001 a stranger's code may raise anything
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            problems.append(f"plugin {entry.name}: cannot be loaded ({what})")
    return Plugins(tuple(found), tuple(problems))
