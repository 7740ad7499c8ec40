"""Rounds: whether the rounds of a loop need each other."""

import ast

from pitstop.scan.source import Source

JOINS = ("torch.stack", "torch.cat", "torch.concat")


def is_collected(source: Source, loop: ast.For) -> bool:
    """Whether each round only adds to lists that are joined afterwards, so that order is free."""
    inside = list(ast.walk(loop))
    appended = {
        source.name_of(each.func.value)
        for each in inside
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "append"
    }
    function = source.enclosing_function(loop)
    joined = {
        source.name_of(call.args[0])
        for call in source.calls(*JOINS)
        if call.args and source.enclosing_function(call) is function
    }
    return bool(appended & joined - {""}) and not carries(inside)


def carries(inside: list[ast.AST]) -> bool:
    """Whether a round reads a name that only an earlier round can have set."""
    names = [each for each in inside if isinstance(each, ast.Name)]
    names.sort(key=lambda each: (each.lineno, isinstance(each.ctx, ast.Store), each.col_offset))
    first: dict[str, ast.Name] = {}
    for each in names:
        first.setdefault(each.id, each)
    stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return any(isinstance(first[name].ctx, ast.Load) for name in stored)
