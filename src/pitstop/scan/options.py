"""Options: arguments that a call is given as a dictionary, ``DataLoader(clips, **options)``."""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pitstop.scan.source import Source

Entries = list[tuple[str, ast.expr]]


def written_out(source: "Source", node: ast.expr) -> Entries | None:
    """The entries of a dictionary that is written out here and only passed on, else ``None``."""
    made: ast.expr = node
    if isinstance(node, ast.Name):
        known = source.assigned(node)
        if known is None or len(known) != 1 or not _is_only_passed_on(source, node):
            return None
        made = known[0]
    if isinstance(made, ast.Dict):
        names = [each.value if isinstance(each, ast.Constant) else None for each in made.keys]
        return _entries(names, made.values)
    if isinstance(made, ast.Call) and source.name_of(made.func) == "dict" and not made.args:
        return _entries([each.arg for each in made.keywords], [k.value for k in made.keywords])
    return None


def _entries(names: Sequence[object], values: list[ast.expr]) -> Entries | None:
    known = [name for name in names if isinstance(name, str)]
    return list(zip(known, values, strict=True)) if len(known) == len(values) else None


def _is_only_passed_on(source: "Source", node: ast.Name) -> bool:
    """Whether every use of the name is ``**name``: nothing is added, and nobody else has it."""
    uses = [each for each in source.nodes(ast.Name) if each.id == node.id]
    read = [each for each in uses if isinstance(each.ctx, ast.Load)]
    passed = [source.parent(each) for each in read]
    return all(isinstance(each, ast.keyword) and each.arg is None for each in passed)
