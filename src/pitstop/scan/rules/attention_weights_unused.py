"""PIT607 attention-weights-unused."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.attention_weights import drops_weights
from pitstop.scan.edits import add_argument
from pitstop.scan.source import Source

ATTENTION = "torch.nn.MultiheadAttention"


@rule("PIT607", worth="small")
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
        named = isinstance(call.func, ast.Name | ast.Attribute)
        if named and _is_attention(source, call.func) and drops_weights(source, call):
            # The fused kernel rounds differently, and draws other numbers for dropout.
            edit = add_argument(source, call, "need_weights=False")
            fix = Fix("Do not ask for them", (edit,))
            yield source.finding(call, fix=fix, changes=("no-attention-weights",))


def _is_attention(source: Source, function: ast.expr) -> bool:
    made = source.assigned(function) or []
    return bool(made) and all(
        isinstance(each, ast.Call) and source.name_of(each.func) == ATTENTION for each in made
    )
