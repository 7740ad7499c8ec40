"""PIT607 attention-weights-unused."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument
from pitstop.scan.first_only import takes_first_only
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
        if wanted is None and takes_first_only(source, call):
            # The fused kernel rounds differently, and draws other numbers for dropout.
            edit = add_argument(source, call, "need_weights=False")
            yield source.finding(call, fix=Fix("Do not ask for them", (edit,), safe=False))


def _is_attention(source: Source, function: ast.expr) -> bool:
    made = source.assigned(function) or []
    return bool(made) and all(
        isinstance(each, ast.Call) and source.name_of(each.func) == ATTENTION for each in made
    )
