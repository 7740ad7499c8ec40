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
    unused = [(each.lineno, each.end_lineno or 0) for each in _unused(source)] if found else []
    return [
        replace(each, severity="note")
        if each.span and any(first <= each.span.line <= last for first, last in unused)
        else each
        for each in found
    ]


def _unused(source: Source) -> list[Function | ast.ClassDef]:
    """Top definitions that neither this file nor another names. Decorators may register theirs."""
    taken = source.project.takes_from(source.module)
    if not taken or "*" in taken:
        return []
    top = [each for each in source.tree.body if isinstance(each, (*FUNCTIONS, ast.ClassDef))]
    plain = [each for each in top if not each.decorator_list and each.name not in taken]
    return [each for each in plain if not _is_named(source, each)]


def _is_named(source: Source, definition: Function | ast.ClassDef) -> bool:
    name, project = definition.name, source.project
    if project.is_called(name, source.path) or name in project.setting_values:
        return True
    start, end = source.extent(definition)
    around = source.text[:start] + source.text[end:]
    return re.search(rf"\b{name}\b", around) is not None
