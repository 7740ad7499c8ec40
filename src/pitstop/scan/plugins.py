"""Plugins: rules of other packages, named by their entry points in ``pitstop.rules``."""

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pitstop.core.rule import Rule

GROUP = "pitstop.rules"


@dataclass(frozen=True, slots=True)
class Plugins:
    """The rules that could be loaded, and a line for each that could not."""

    rules: tuple[Rule[Any], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def state(self) -> list[str]:
        """What the cache must know of them: a rule that was edited has to run again."""
        files = [Path(rule.check.__code__.co_filename) for rule in self.rules]
        return [f"{file} {file.stat().st_mtime_ns}" for file in files if file.exists()]


@lru_cache(maxsize=1)
def load_plugins() -> Plugins:
    """Load what each entry point names; whatever goes wrong there is its author's problem."""
    rules: list[Rule[Any]] = []
    problems = []
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
            if not isinstance(found, Rule):
                raise TypeError("it is no function decorated with @rule")
            rules.append(found)
        except Exception as error:  # noqa: BLE001 a stranger's code may raise anything
            what = f"{type(error).__name__}: {error}".splitlines()[0]
            problems.append(f"plugin {entry.name}: cannot be loaded ({what})")
    return Plugins(tuple(rules), tuple(problems))
