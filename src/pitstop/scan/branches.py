"""Branches: which places of a function run together, and what a loop changes."""

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pitstop.scan.source import Source

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
CHOICES = (ast.If, ast.IfExp, ast.Try, ast.Match, ast.ExceptHandler, ast.match_case)


def branches_around(source: "Source", node: ast.AST) -> set[tuple[ast.AST, str]]:
    """The branches that must be taken to reach ``node`` in its function."""
    found: set[tuple[ast.AST, str]] = set()
    child, above = node, source.parent(node)
    while above is not None and not isinstance(above, FUNCTIONS):
        if isinstance(above, CHOICES):
            found.add((above, _field(above, child)))
        child, above = above, source.parent(above)
    return found


def follows(source: "Source", first: ast.AST, second: ast.AST) -> bool:
    """Whether whoever reaches ``second`` has certainly run ``first`` in the same function."""
    same = source.enclosing_function(first) is source.enclosing_function(second)
    before = source.extent(first)[1] <= source.extent(second)[0]
    return same and before and branches_around(source, first) <= branches_around(source, second)


def _field(above: ast.AST, child: ast.AST) -> str:
    """Which list of a choice holds the child: what ``try`` tries has run when ``else`` does."""
    for field in ("orelse", "handlers", "finalbody"):
        held = getattr(above, field, None)
        if held is child or (isinstance(held, list) and child in held):
            return field
    return "test" if getattr(above, "test", None) is child else "body"


def depends_on(loop: ast.AST, parts: Iterable[ast.AST]) -> bool:
    """Whether some of these expressions use a name that the loop binds."""
    bound = {
        name.id
        for name in ast.walk(loop)
        if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
    }
    used = (name for part in parts for name in ast.walk(part) if isinstance(name, ast.Name))
    return any(name.id in bound for name in used)


def computed_from(loop: ast.For) -> set[str]:
    """The target of a loop, and all that is computed from it in the loop."""
    names = names_in(loop.target)
    for assign in ast.walk(loop):
        if isinstance(assign, ast.Assign) and names_in(assign.value) & names:
            names = names.union(*map(names_in, assign.targets))
    return names


def names_in(node: ast.AST) -> set[str]:
    """The names that occur anywhere below a node."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def rebound_between(source: "Source", first: ast.Call, second: ast.Call) -> bool:
    """Whether a name that ``second`` uses gets another value after ``first``."""
    names = names_in(second)
    start, end = source.extent(first)[1], source.extent(second)[0]
    function = source.enclosing_function(first) or source.tree
    return any(
        start < source.extent(name)[0] < end
        for key, bindings in source.bindings.items()
        if key[0] is function and key[1] in names
        for name in [each.target for each in bindings]
    )


def loops_around(source: "Source", node: ast.AST) -> list[ast.For]:
    """The ``for`` loops of the function around a node, innermost first."""
    found = []
    loop = source.enclosing_loop(node)
    while loop is not None:
        if isinstance(loop, ast.For):
            found.append(loop)
        loop = source.enclosing_loop(loop)
    return found
