"""The one walk over a syntax tree: its nodes by type, and the parent of each."""

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

# Strings, numbers, contexts and operators are no subjects of a rule; leaving them out halves the
# cost of the walk, and operators are shared objects that could hold no parent anyway.
SKIPPED_FIELDS = {
    *("ctx", "op", "ops", "id", "attr", "arg", "name", "asname", "kind", "type_comment"),
    *("type_ignores", "simple", "is_async", "conversion", "rest", "kwd_attrs", "level", "module"),
    "names",
}
LEAVES = {ast.Name, ast.Constant}


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes of one tree, in source order within a type."""

    by_type: dict[type[ast.AST], list[ast.AST]]
    parents: dict[ast.AST, ast.AST]


def walk(tree: ast.AST) -> Nodes:
    """Visit every node once, without recursion: generated code may be nested very deep."""
    by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    parents: dict[ast.AST, ast.AST] = {}
    stack = [tree]
    fields = _fields_with_nodes()
    while stack:
        node = stack.pop()
        kind = node.__class__
        by_type[kind].append(node)
        for field in fields[kind]:
            value = getattr(node, field, None)
            if value.__class__ is list:
                for child in reversed(value):
                    if child is not None:
                        parents[child] = node
                        stack.append(child)
            elif value is not None:
                parents[value] = node
                stack.append(value)
    return Nodes(by_type, parents)


@cache
def _fields_with_nodes() -> dict[type[ast.AST], tuple[str, ...]]:
    """Field names to follow for every node class, last first, as a stack wants them."""
    classes = [each for each in vars(ast).values() if isinstance(each, type)]
    return {
        each: ()
        if each in LEAVES
        else tuple(reversed([field for field in each._fields if field not in SKIPPED_FIELDS]))
        for each in classes
        if issubclass(each, ast.AST)
    }
