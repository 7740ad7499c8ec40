"""Unused: what a file defines and nobody names, beside what the project takes from that file."""

import ast
import re
from collections.abc import Iterable
from dataclasses import replace

from pitstop.core.finding import Finding
from pitstop.scan.source import FUNCTIONS, Function, Source


def as_notes(source: Source, findings: Iterable[Finding]) -> list[Finding]:
    """The same findings; a note where the code around one is used by nobody."""
    found = list(findings)
    lines = {each.span.line for each in found if each.span}
    unused = {line for each in _unused(source, lines) for line in _lines(each)} if lines else set()
    return [
        replace(each, severity="note") if each.span and each.span.line in unused else each
        for each in found
    ]


def _lines(definition: Function | ast.ClassDef) -> range:
    return range(definition.lineno, (definition.end_lineno or 0) + 1)


def _unused(source: Source, lines: set[int]) -> list[Function | ast.ClassDef]:
    """Definitions around these lines that nobody names. Decorators may register theirs."""
    taken = source.project.takes_from(source.module)
    if not taken or "*" in taken:
        return []
    top = [each for each in source.tree.body if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
    plain = [each for each in top if not each.decorator_list and each.name not in taken]
    around = [each for each in plain if not lines.isdisjoint(_lines(each))]
    return [each for each in around if not _is_named(source, each)]


def _is_named(source: Source, definition: Function | ast.ClassDef) -> bool:
    name, project = definition.name, source.project
    if project.is_called(name, source.path) or name in project.setting_values:
        return True
    start, end = source.extent(definition)
    word = re.compile(rf"\b{name}\b")
    return bool(word.search(source.text, 0, start) or word.search(source.text, end))
