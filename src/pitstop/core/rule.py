"""Rules: one function that looks at one subject and yields findings."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from pitstop.core.finding import Finding

Subject = TypeVar("Subject")
Worth = Literal["likely", "small"]  # small: a few percent of a step at most, or now and then


@dataclass(frozen=True, slots=True)
class Rule(Generic[Subject]):
    """A named check. Call it on a subject to get that subject's findings."""

    code: str
    name: str
    doc: str
    check: Callable[[Subject], Iterator[Finding]]
    worth: Worth = "likely"

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.doc.partition("\n")[0]

    @property
    def essay(self) -> str:
        """What it says between summary and examples; of all rules of a code, one has an essay."""
        return self.doc.partition("\n")[2].partition("Bad:\n")[0].strip()

    def __call__(self, subject: Subject) -> list[Finding]:
        """Run the check and stamp its findings as this rule's."""
        return [
            replace(found, message=found.message or self.summary, code=self.code, rule=self.name)
            for found in self.check(subject)
        ]


def rule(
    code: str, worth: Worth = "likely"
) -> Callable[[Callable[[Subject], Iterator[Finding]]], Rule[Subject]]:
    """Turn a generator function into a rule named after it."""

    def wrap(check: Callable[[Subject], Iterator[Finding]]) -> Rule[Subject]:
        doc = inspect.cleandoc(check.__doc__ or "")
        return Rule(code, check.__name__.replace("_", "-"), doc, check, worth)

    return wrap


def load_rules(package: ModuleType) -> list[Rule[Any]]:
    """Import every module of ``package``; return the one rule each must define, by code."""
    rules = []
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        stem = info.name.rpartition(".")[2]
        found = getattr(importlib.import_module(info.name), stem, None)
        if not isinstance(found, Rule):
            raise TypeError(f"{info.name}: expected a function {stem!r} decorated with @rule")
        rules.append(found)
    return sorted(rules, key=lambda each: each.code)


def example(doc: str, heading: str) -> str:
    """The dedented code under ``heading:`` in a rule's documentation, or an empty string."""
    lines = iter(doc.splitlines())
    if not any(line.rstrip() == f"{heading}:" for line in lines):
        return ""
    block = []
    for line in lines:
        if line and not line.startswith(" "):
            break
        block.append(line)
    return inspect.cleandoc("\n".join(["", *block])).strip("\n") + "\n"
