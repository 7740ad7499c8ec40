"""PIT607 attention-weights-unused."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument
from pitstop.scan.source import Source

ATTENTION = "torch.nn.MultiheadAttention"
NEED_WEIGHTS = 4  # its place among the arguments of forward


@rule("PIT607")
def attention_weights_unused(source: Source) -> Iterator[Finding]:
    """MultiheadAttention is asked for weights that nobody reads.

    To return them it must write out the whole matrix and average it over the heads. With
    `need_weights=False` it calls the fused kernel, which rounds differently in the last digit.

    Bad:
        attention = torch.nn.MultiheadAttention(256, 8)
        attended, _ = attention(query, key, value)

    Good:
        attention = torch.nn.MultiheadAttention(256, 8)
        attended, _ = attention(query, key, value, need_weights=False)
    """
    if "MultiheadAttention" not in source.text:
        return
    for call in source.nodes(ast.Call):
        if not isinstance(call.func, ast.Name | ast.Attribute) or source.open_ended(call):
            continue
        if len(call.args) + len(call.keywords) < 3 or not _is_attention(source, call.func):
            continue
        wanted = source.argument(call, "need_weights", NEED_WEIGHTS)
        if wanted is None and _is_ignored(source, call):
            # The fused kernel rounds differently, and draws other numbers for dropout.
            edit = add_argument(source, call, "need_weights=False")
            yield source.finding(call, fix=Fix("Do not ask for them", (edit,), safe=False))


def _is_attention(source: Source, function: ast.expr) -> bool:
    made = source.assigned(function) or []
    return bool(made) and all(
        isinstance(each, ast.Call) and source.name_of(each.func) == ATTENTION for each in made
    )


def _is_ignored(source: Source, call: ast.Call) -> bool:
    """Whether only the first of the two results is used: ``[0]``, or a name nobody reads."""
    match source.parent(call):
        case ast.Subscript(slice=ast.Constant(value=0)):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name() as weights])]):
            return not _is_read(source, weights)
        case ast.Assign(targets=[ast.Name() as pair]):
            return _is_only_indexed(source, pair)
    return False


def _loads(source: Source, stored: ast.Name) -> list[ast.Name]:
    function = source.enclosing_function(stored)
    return [
        name
        for name in source.nodes(ast.Name)
        if name.id == stored.id
        and isinstance(name.ctx, ast.Load)
        and source.enclosing_function(name) is function
    ]


def _is_read(source: Source, weights: ast.Name) -> bool:
    return bool(_loads(source, weights))


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
