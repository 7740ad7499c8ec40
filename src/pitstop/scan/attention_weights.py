"""Attention weights: whether a caller of MultiheadAttention drops the second of its results."""

import ast
import builtins

from pitstop.scan.source import Source

FEWEST = 3  # arguments: query, key and value
NEED_WEIGHTS = 4  # its place among them
SEES_NAMES = {"dir", "eval", "exec", "globals", "locals", "vars"}  # without naming them
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def drops_weights(source: Source, call: ast.Call) -> bool:
    """Whether it may be a call of attention that leaves open what it needs, and takes one result.

    Nobody reads the other: it is taken by ``[0]``, or gets a name that is never read.
    """
    few = len(call.args) + len(call.keywords) < FEWEST
    given = source.argument(call, "need_weights", NEED_WEIGHTS) is not None
    if few or given or _is_builtin(call.func) or source.open_ended(call):
        return False
    match above := source.parent(call):
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name() as weights])]):
            return _reads(source, weights) == []
        case ast.Assign(targets=[ast.Name() as pair]):
            reads = _reads(source, pair) or []
            return bool(reads) and all(_takes_first(source.parent(each)) for each in reads)
    return _takes_first(above)


def _is_builtin(function: ast.expr) -> bool:
    """Whether it is a function such as ``list``, which may call anything."""
    return isinstance(function, ast.Name) and function.id in dir(builtins)


def _reads(source: Source, stored: ast.Name) -> list[ast.Name] | None:
    """Where a name is read in its function, and in those inside it; ``None``: elsewhere, too."""
    scope = source.enclosing(stored, *SCOPES) or source.tree
    shared = (each.names for each in source.nodes(ast.Global, ast.Nonlocal))
    names = [each for each in source.nodes(ast.Name) if source.is_inside(each, scope)]
    if isinstance(scope, ast.ClassDef) or any(stored.id in each for each in shared):
        return None
    if any(each.id in SEES_NAMES for each in names):
        return None
    return [each for each in names if each.id == stored.id and _is_read(source, each)]


def _is_read(source: Source, name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load) or isinstance(source.parent(name), ast.AugAssign)


def _takes_first(node: ast.AST | None) -> bool:
    slice_ = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(slice_, ast.Constant) and slice_.value == 0
