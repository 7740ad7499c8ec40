"""PIT708 unguarded-log-sqrt-or-division."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.around import tensor_calls
from pitstop.scan.hot import place_of
from pitstop.scan.source import Source

SATURATES = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}
TRAINED = re.compile(r"loss|criteri|lpips|perceptual|charbonnier", re.IGNORECASE)
MEASURES = re.compile(r"metric|eval|psnr|rmse|\bepe\b|\.item\(|\.detach\(|no_grad", re.IGNORECASE)
# What the network has not made, and numbers that keep a root away from zero.
GIVEN = re.compile(r"^(?:\w+_)?(?:gt|targets?|labels?|real|eps\w*|delta|\w+_c|sigma|margin)$")
ROOT = "The slope of this root is infinite at zero, and one such pixel makes NaN: add 1e-6 inside"
FLAT = "Where all values are equal this is 0 / 0: add an epsilon to the range"


@rule("PIT708")
def unguarded_log_sqrt_or_division(source: Source) -> Iterator[Finding]:
    """A value that training can reach makes this infinite, or its gradient.

    The logarithm of a softmax underflows; the root of a sum of squares has an infinite slope
    at zero; a range can be empty. One such number, and every weight is NaN.

    Bad:
        class Loss(torch.nn.Module):
            def forward(self, logits):
                return -torch.log(torch.softmax(logits, -1)).mean()

    Good:
        class Loss(torch.nn.Module):
            def forward(self, logits):
                return -torch.log_softmax(logits, -1).mean()
    """
    for node, message in _suspects(source):
        hot = source.hot(node)
        if hot is None or hot.kind != "step" or hot.guarded or place_of(source, node).evaluation:
            continue
        if message is ROOT and not _is_trained(source, node, hot.reason):
            continue
        written = source.text_of(source.statement(node))
        if not MEASURES.search(written) and not MEASURES.search(source.path):
            yield source.finding(node, f"{message} ({hot.reason}).", confidence="suspected")


def _suspects(source: Source) -> Iterator[tuple[ast.AST, str]]:
    for call, value in tensor_calls(source, "log"):
        function = value.func if isinstance(value, ast.Call) else None
        last = getattr(function, "attr", "") or getattr(function, "id", "")
        if last in SATURATES:
            what = f"`log({last}(x))` underflows to minus infinity"
            yield call, f"{what}: use `{SATURATES[last]}`"
    for call, value in tensor_calls(source, "sqrt"):
        if _is_sum_of_squares(source, value):
            yield call, ROOT
    for call in source.method_calls("max"):
        match source.parent(call), call:
            case ast.BinOp(_, ast.Sub(), ast.Call(ast.Attribute(low, "min"))) as span, ast.Call(
                ast.Attribute(high, _)
            ) if ast.dump(low) == ast.dump(high) and source.kind_of(high) == "tensor":
                divided = source.parent(span)
                if isinstance(divided, ast.BinOp) and divided.right is span:
                    yield divided, FLAT


def _is_trained(source: Source, node: ast.AST, reason: str) -> bool:
    """Whether a loss is computed here, so that the gradient certainly goes through."""
    owner, function = source.enclosing_class(node), source.enclosing_function(node)
    names = f"{owner and owner.name} {function and function.name} {reason}"
    backward = [source.enclosing_function(each) for each in source.method_calls("backward")]
    return bool(TRAINED.search(names)) or function in backward


def _is_sum_of_squares(source: Source, node: ast.AST, summed: bool = False) -> bool:
    """``a ** 2 + b ** 2``, or the sum of squares, of tensors only."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            return all(_is_sum_of_squares(source, each, summed) for each in (left, right))
        case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
            return _is_computed(source, base, summed)
        case ast.Call(ast.Attribute(value, name), args):
            inner = args[0] if args and source.text_of(value) == "torch" else value
            if name in ("sum", "mean"):
                return _is_sum_of_squares(source, inner, summed=True)
            square = name == "square" or (name == "pow" and source.text_of(node).endswith("2)"))
            return square and _is_computed(source, inner, tensor=True)
    return False


def _is_computed(source: Source, base: ast.expr, tensor: bool) -> bool:
    """Whether the squared value is a tensor that the network has made."""
    tensor = tensor or isinstance(base, ast.Subscript | ast.BinOp)
    return (tensor or source.kind_of(base) == "tensor") and not GIVEN.search(
        source.text_of(base).lower()
    )
