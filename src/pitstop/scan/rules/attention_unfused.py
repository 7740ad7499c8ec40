"""PIT604 attention-unfused."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Severity
from pitstop.core.rule import rule
from pitstop.scan.attention import is_shared, operands, passed_through, written_out
from pitstop.scan.source import Function, Source

FUSED = re.compile(r"scaled_dot_product_attention|memory_efficient_attention|flash_attn|xformers")
# Attention between channels: one head is as wide as the picture, and no kernel takes that.
CHANNELS = re.compile(r"c \(h w\)|\(h w\)['\"]|c \(t h w\)|normalize\(")


@rule("PIT604")
def attention_unfused(source: Source) -> Iterator[Finding]:
    """Attention is written out: the whole score matrix goes through memory.

    Scores, softmax and dropout each write and read a tokens x tokens matrix per head.
    `scaled_dot_product_attention` keeps it on the chip, in training and inference; a bias or a
    mask goes in as `attn_mask`. The two matrix products remain. Needed as it is where somebody
    reads the weights. On a CPU with dropout, and with a learned bias, torch writes the scores
    as well.

    Bad:
        def attend(q, k, v, scale):
            scores = q @ k.transpose(-2, -1) * scale
            return scores.softmax(-1) @ v

    Good:
        def attend(q, k, v, scale):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    """
    if "softmax" not in source.text.lower() or not source.project.runs_with_torch(2, 0):
        return
    for softmax, scores in written_out(source).items():
        function = source.enclosing_function(softmax)
        around = (source.enclosing_class(function) or function) if function else source.tree
        if FUSED.search(source.text_of(around) if function else source.text):
            continue  # a fused kernel is there already, and this is what runs without it
        if function is not None and not _has_a_reason(source, function, softmax, scores):
            message = "Attention is written out; `scaled_dot_product_attention` fuses it."
            worth: Severity = "note" if FUSED.search(source.text) else "warning"
            yield source.finding(
                softmax,
                message,
                severity=worth,
                confidence="suspected",
                changes=("fused-attention",),
            )


def _has_a_reason(source: Source, function: Function, softmax: ast.Call, scores: ast.expr) -> bool:
    """Whether the weights are read, a fused kernel is near, or none would take these shapes."""
    around = source.enclosing_class(function) or function
    if CHANNELS.search(source.text_of(around)):
        return True
    if is_shared(source, softmax, scores):
        return True
    statement = source.statement(softmax)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    names = {target.id} if isinstance(target, ast.Name) else set()
    after = [
        name
        for name in source.nodes(ast.Name)
        if name.id in names
        and isinstance(name.ctx, ast.Load)
        and name.lineno > statement.lineno
        and source.enclosing_function(name) is function
    ]
    if any(not _is_multiplied(source, name) for name in after):
        return True
    return _products(source, names, function) > 1  # fused, each would compute the weights again


def _products(source: Source, names: set[str], function: Function) -> int:
    """How many products the weights go into."""
    nodes = [*source.nodes(ast.BinOp), *source.nodes(ast.Call)]
    every = [operands(source, each) for each in nodes if source.is_inside(each, function)]
    return sum(any(isinstance(o, ast.Name) and o.id in names for o in each) for each in every)


def _is_multiplied(source: Source, name: ast.Name) -> bool:
    """Whether the weights only go on into the product: not returned, kept or changed."""
    child: ast.AST = name
    above = source.parent(child)
    while isinstance(above, ast.Call | ast.Attribute):
        if isinstance(above, ast.Call) and {child, name} & set(operands(source, above)):
            return True
        if (
            isinstance(above, ast.Call)
            and child is not above.func
            and passed_through(above) is not child
        ):
            return False
        child, above = above, source.parent(above)
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, ast.MatMult)
    return isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name)
