"""PIT205 constant-rebuilt-each-step."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Severity
from pitstop.core.rule import rule
from pitstop.scan.rare import is_kept, is_rare
from pitstop.scan.source import Function, Source

RAMPS = ("torch.linspace", "torch.hann_window", "torch.hamming_window", "torch.blackman_window")
RANGES = {"torch.arange", "torch.linspace", "range"}
MOVES = ("to", "cuda", "type_as")


@rule("PIT205", worth="small")
def constant_rebuilt_each_step(source: Source) -> Iterator[Finding]:
    """A tensor that is always the same is built again in every step.

    Built from numbers it is copied to the GPU each time, and Python waits for the copy; built
    from ranges it costs a few launches. Register it as a buffer, or keep it per shape and
    device. Where the shape differs each time there is nothing to keep.

    Bad:
        class Loss(torch.nn.Module):
            def forward(self, x):
                return x - torch.tensor([0.485, 0.456, 0.406], device=x.device)

    Good:
        class Loss(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]))

            def forward(self, x):
                return x - self.mean
    """
    seen: set[Function | None] = set()
    for call in sorted(_constants(source), key=lambda each: each.lineno):
        function = source.enclosing_function(call)
        hot = source.hot(call)
        if hot is None or hot.guarded or hot.kind in ("sample", "validation") or function in seen:
            continue
        if not is_rare(source, call, hot) and not is_kept(source, call, function):
            seen.add(function)
            message = (
                f"This tensor is always the same and is built every {hot.kind} ({hot.reason})."
            )
            worth: Severity = "warning" if _is_window(call) else "note"
            yield source.finding(call, message, severity=worth, confidence="suspected")


def _constants(source: Source) -> Iterator[ast.Call]:
    for call in source.calls("torch.tensor", "torch.Tensor", "torch.FloatTensor"):
        if not call.args:
            continue
        numbers = _is_list(call.args[0]) and _goes_to_device(source, call)
        if numbers or _is_window(call):
            yield call
    yield from source.calls(*RAMPS)
    for call in source.calls("torch.meshgrid"):
        first = call.args[0] if len(call.args) == 1 else None
        grids = first.elts if isinstance(first, ast.List | ast.Tuple) else call.args
        if grids and all(_is_range(source, each) for each in grids):
            yield call


def _is_list(node: ast.expr) -> bool:
    """Whether it is a display of two or more numbers, as far as it goes down."""
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return len(items) > 1 and all(_is_number(each) or _is_list(each) for each in items)
    return False


def _is_window(call: ast.Call) -> bool:
    """Whether Python computes it number by number: ``[exp(-(x - 5) ** 2) for x in range(11)]``."""
    node = call.args[0] if call.args else None
    if not isinstance(node, ast.ListComp) or len(node.generators) > 1:
        return False
    over = node.generators[0].iter
    return isinstance(over, ast.Call) and getattr(over.func, "id", "") == "range"


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_range(source: Source, node: ast.expr) -> bool:
    values = source.assigned(node) or [node]
    names = {source.name_of(each.func) if isinstance(each, ast.Call) else "" for each in values}
    return names <= RANGES


def _goes_to_device(source: Source, call: ast.Call) -> bool:
    above = source.parent(call)
    moved = isinstance(above, ast.Attribute) and above.attr in MOVES
    return moved or source.argument(call, "device") is not None
