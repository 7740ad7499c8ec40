"""First only: whether a caller takes the first of several results, and drops the others."""

import ast

from pitstop.scan.source import Source


def takes_first_only(source: Source, call: ast.Call) -> bool:
    """Whether nobody reads the second of two results: ``[0]``, or a name that is never read."""
    match source.parent(call):
        case ast.Subscript(slice=ast.Constant(value=0)):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name() as second])]):
            return not _loads(source, second)
        case ast.Assign(targets=[ast.Name() as pair]):
            return _is_only_indexed(source, pair)
    return False


def _loads(source: Source, stored: ast.Name) -> list[ast.Name]:
    """Where a name is read, in its function and in those inside it; one of a module anywhere."""
    function = source.enclosing_function(stored) or source.tree
    return [
        name
        for name in source.nodes(ast.Name)
        if name.id == stored.id
        and isinstance(name.ctx, ast.Load)
        and source.is_inside(name, function)
    ]


def _is_only_indexed(source: Source, pair: ast.Name) -> bool:
    """Whether every use of the pair takes its first item."""
    loads = [each for each in _loads(source, pair) if each.lineno >= pair.lineno]
    above = [source.parent(each) for each in loads]
    return bool(above) and all(
        isinstance(each, ast.Subscript)
        and isinstance(each.slice, ast.Constant)
        and each.slice.value == 0
        for each in above
    )
