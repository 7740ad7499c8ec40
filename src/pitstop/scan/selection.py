"""Selection: which rules are wanted, by code, by the start of a code, or by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from pitstop.core.errors import PitstopError
from pitstop.core.rule import Rule

EVERYTHING = "ALL"


def matches(selector: str, code: str, name: str) -> bool:
    """Whether a selector means a rule: ``PIT2``, ``PIT202``, ``tensor-built-on-cpu``, ``ALL``."""
    wanted = selector.strip().upper()
    if wanted == EVERYTHING:
        return True
    if wanted.startswith("PIT"):
        return code.upper().startswith(wanted)
    return wanted == name.upper()


@dataclass(frozen=True, slots=True)
class Selection:
    """What to run: ``ignore`` wins over ``select``; ``per_file`` adds to ``ignore`` for a path."""

    select: tuple[str, ...] = (EVERYTHING,)
    ignore: tuple[str, ...] = ()
    per_file: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # glob -> selectors

    def rules(self, rules: Iterable[Rule[Any]]) -> list[Rule[Any]]:
        """The rules that are wanted in at least some file; raises on a selector of nothing."""
        known = list(rules)
        _check(
            known,
            [*self.select, *self.ignore, *(s for each in self.per_file.values() for s in each)],
        )
        return [
            rule
            for rule in known
            if _any(self.select, rule.code, rule.name)
            and not _any(self.ignore, rule.code, rule.name)
        ]

    def silences(self, path: str, code: str, name: str) -> bool:
        """Whether a rule is not wanted in this file."""
        return any(
            _any(selectors, code, name)
            for glob, selectors in self.per_file.items()
            if fnmatch(path, glob) or fnmatch(path, f"*/{glob}")
        )


def _any(selectors: Sequence[str], code: str, name: str) -> bool:
    return any(matches(selector, code, name) for selector in selectors)


def _check(rules: list[Rule[Any]], selectors: Iterable[str]) -> None:
    for selector in selectors:
        if not any(matches(selector, rule.code, rule.name) for rule in rules):
            raise PitstopError(f"no rule is called {selector!r}: `pitstop rules` lists them all")
