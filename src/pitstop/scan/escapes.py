"""Escapes: whether a value goes where somebody might ask for its gradient."""

import ast

from pitstop.scan.source import Source

NUMBERS = {"float", "int", "bool", "str", "repr", "print", "format", "round", "len"}
LOGGED = {"format", "debug", "info", "warning", "error", "add_scalar", "set_postfix"}
READ = {"item", "tolist", "detach", "numel", "size", "append"}  # no gradient is left behind these
STILL = {"mean", "sum", "cpu", "float", "double", "squeeze", "view", "reshape", "max", "min"}
NAMES_DEPTH = 3  # mean = total / n; text = f"{mean}": how many names are followed
HIDDEN = ("locals", "globals", "vars", "eval", "exec")  # through these a name is read unseen


def is_only_read(source: Source, name: ast.Name) -> bool:
    """Whether what a name holds is only shown, compared or made a number, wherever it is used.

    Returned, stored or handed to a function that we do not know, it may be differentiated there.
    """
    if source.calls(*HIDDEN):
        return False
    shared = (name.id in each.names for each in source.nodes(ast.Global, ast.Nonlocal))
    if any(shared):
        return False
    return _all_read(source, name, NAMES_DEPTH)


def _all_read(source: Source, name: ast.Name, depth: int) -> bool:
    around = source.enclosing_function(name) or source.tree
    uses = [each for each in source.nodes(ast.Name) if each.id == name.id]
    reads = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return all(_is_read(source, each, depth) for each in reads if source.is_inside(each, around))


def _is_read(source: Source, use: ast.expr, depth: int = NAMES_DEPTH) -> bool:
    """Whether one use ends in a number, a text or a decision."""
    child: ast.AST = use
    above = source.parent(child)
    while above is not None and not _ends(above, child):
        if not _passes_on(above, child):
            match above:
                case ast.Assign(targets=[ast.Name() as target]) if depth:
                    return _all_read(source, target, depth - 1)
            return False
        child, above = above, source.parent(above)
    return True


def _ends(above: ast.AST, child: ast.AST) -> bool:
    """Whether nothing is left of a gradient behind this: it is printed, compared, a number."""
    match above:
        case ast.If(test=test) | ast.While(test=test):
            return test is child
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
        case ast.Attribute(attr=attribute):
            return attribute in READ
        case ast.Call(func=ast.Name(name)):
            return name in NUMBERS
        case ast.Call(func=ast.Attribute(attr=method)):
            return child is not above.func and method in LOGGED
    return isinstance(above, ast.Expr | ast.FormattedValue | ast.Compare | ast.Delete)


def _passes_on(above: ast.AST, child: ast.AST) -> bool:
    """Whether what comes out may still have the graph, and is for the next one up to judge."""
    match above:
        case ast.Attribute(attr=attribute):
            return attribute in STILL
        case ast.Call(func=function):
            return child is function or getattr(function, "id", "") == "sum"
    return isinstance(above, ast.keyword | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.Subscript)
