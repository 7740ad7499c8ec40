"""PIT306 epsilon-vanishes-in-half."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

SMALLEST = 2.0**-25  # half of float16's smallest number: from here on it rounds to zero
HALF = {"torch.float16", "torch.half"}
ADAMS = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.NAdam", "torch.optim.RMSprop")
DEFAULT_EPSILON = 1e-8  # of the optimizers above
KEEPS_DTYPE = ("abs", "sum", "mean", "norm", "std", "var", "sqrt", "pow", "square", "clone", "max")


@rule("PIT306")
def epsilon_vanishes_in_half(source: Source) -> Iterator[Finding]:
    """The epsilon is zero in float16, so the division it guards is not guarded.

    float16 has no number between zero and 6e-8. Use 1e-6 or more, or compute in float32.
    bfloat16 has the range of float32 and keeps it. The same holds for Adam on float16 weights.

    Bad:
        x = frames.half()
        y = x / (x.norm() + 1e-8)

    Good:
        x = frames.half()
        y = x / (x.norm() + 1e-6)
    """
    if "half()" not in source.text and "float16" not in source.text:
        return
    for node, value, epsilon in _guards(source):
        small = isinstance(epsilon, float) and 0 < epsilon <= SMALLEST
        if small and _is_half(source, value):
            message = f"{epsilon:g} is zero in float16: this guards nothing."
            yield source.finding(node, message, severity="error")
    for call in source.calls(*ADAMS):
        given = source.argument(call, "eps")
        epsilon = DEFAULT_EPSILON if given is None else source.literal(given)
        if not isinstance(epsilon, float) or epsilon > SMALLEST or source.open_ended(call):
            continue
        if _owns_half_weights(source, call) and source.argument(call, "fused") is None:
            message = f"The weights are float16, in which Adam's epsilon of {epsilon:g} is zero."
            yield source.finding(call, message, severity="error", changes=("bf16",))


def _guards(source: Source) -> Iterator[tuple[ast.AST, ast.expr, object]]:
    """Places that add an epsilon or clamp to one: the place, the value, the epsilon."""
    for node in source.nodes(ast.BinOp):
        if isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant | ast.Name):
            yield node, node.left, source.literal(node.right)
    for call in source.method_calls("clamp", "clamp_min", "clip", "clamp_", "clamp_min_"):
        assert isinstance(call.func, ast.Attribute)
        torch_call = source.name_of(call.func).startswith("torch.")
        value = source.argument(call, "input", 0) if torch_call else call.func.value
        if value is not None:
            low = source.argument(call, "min", 1 if torch_call else 0)
            yield call, value, source.literal(low)


def _is_half(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether the value is float16 for certain: converted, or computed from such a value."""
    if depth == 0:
        return False
    match node:
        case ast.Call(ast.Attribute(_, "half"), args=[]):
            return True
        case ast.Call(ast.Attribute(_, "to" | "type"), args, keywords):
            names = {source.name_of(each) for each in [*args, *(k.value for k in keywords)]}
            return bool(names & HALF)
        case ast.Call(ast.Attribute(value, method), keywords=keywords) if method in KEEPS_DTYPE:
            plain = not any(keyword.arg == "dtype" for keyword in keywords)
            return plain and _is_half(source, value, depth - 1)
        case ast.Name():
            values = source.assigned(node)
            return bool(values) and all(_is_half(source, e, depth - 1) for e in values or ())
    return False


def _owns_half_weights(source: Source, call: ast.Call) -> bool:
    """``Adam(model.parameters())`` where the model was converted before."""
    match call.args[0] if call.args else None:
        case ast.Call(ast.Attribute(ast.Name() as model, "parameters")):
            return _is_half(source, model)
    return False
