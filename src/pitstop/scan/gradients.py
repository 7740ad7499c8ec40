"""Gradients: where they are off, as far as files and callers tell, and where they flow."""

import ast
import re
from collections.abc import Iterator

from pitstop.scan import scopes
from pitstop.scan.call_graph import is_test
from pitstop.scan.hot import place_of
from pitstop.scan.kinds import NUMBERS, same_value
from pitstop.scan.names import module_name
from pitstop.scan.source import Function, Source

# Reading these tells that gradients are turned off, or wanted, in a way we do not follow.
OTHER_WAYS = re.compile(
    r"requires_grad_\((?:False|requires_grad=False)\)|requires_grad\s*=\s*False|set_grad_enabled"
    r"|autograd\.grad|torch\.jit\.trace|torch\.onnx"
)
CALLERS_DEPTH = 3  # callers of callers that may turn gradients off
TENSOR_STILL = {
    *("mean", "sum", "clone", "cpu", "cuda", "to", "float", "squeeze", "view"),
    *("mul", "div", "add", "sub", "neg"),
}
WRAPPER = re.compile(r"accel|engine|fabric|scaler|optim|strategy|trainer|^amp$|^self$|model$")
OPERANDS_DEPTH = 3  # loss = a + b, a = c * d: how far back terms of the loss are followed
OFF = ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled")
DECORATOR = re.compile(r"grad|inference|eval|step")


def is_unclear(source: Source) -> bool:
    """Whether this file, or one it imports, turns gradients off in a way we do not follow."""
    if OTHER_WAYS.search(source.text) or is_test(source.path):
        return True
    switches = source.project.sets("torch.set_grad_enabled")
    modules = [module_name(switch.path) for switch in switches]
    return any(name.startswith(each) for name in source.aliases.values() for each in modules)


def is_off(source: Source, function: Function | None, depth: int = CALLERS_DEPTH) -> bool:
    """Whether gradients are off in a function, by a decorator or by one of its callers."""
    if function is None:
        return False
    if any(DECORATOR.search(ast.unparse(each)) for each in function.decorator_list):
        return True
    inside = [*source.calls(function.name), *source.method_calls(function.name)]
    for call in inside:
        if place_of(source, call).evaluation:
            return True
        caller = source.enclosing_function(call)
        if caller is not function and depth and is_off(source, caller, depth - 1):
            return True
    return not inside and source.project.is_called(function.name, source.path)


def asks_for_gradients(source: Source, function: Function | None) -> bool:
    """Whether a function, or the script's own code, trains: itself or in what it calls."""
    name = source.qualified_name(function) if function else ""
    return source.project.asks_for_gradients(source.path, name)


def is_off_in_class(source: Source, call: ast.Call) -> bool:
    """Whether the file of the network's class may turn gradients off, or is not known."""
    func = call.func
    method = isinstance(func, ast.Attribute) and func.attr == "inference"
    owner = func.value if isinstance(func, ast.Attribute) and method else func
    made = [_innermost(each) for each in source.assigned(owner) or []]
    names = [source.project.find_class(source.name_of(each), source.module) for each in made]
    files = [file for file in source.project.files if file.module in map(_module_of, names)]
    if not files:
        return method
    return any(name in OFF for file in files for name, _ in file.names)


def _innermost(value: ast.expr) -> ast.expr:
    """The class of ``Network().cuda().eval()``."""
    while isinstance(value, ast.Call | ast.Attribute):
        inner = value.func if isinstance(value, ast.Call) else value.value
        if isinstance(value, ast.Call) and isinstance(inner, ast.Name):
            return inner
        if isinstance(value, ast.Attribute) and isinstance(inner, ast.Name):
            return value
        value = inner
    return value


def _module_of(class_name: str) -> str:
    return class_name.rpartition(".")[0]


def differentiated(source: Source, around: ast.AST) -> set[str]:
    """Names on which code around calls backward, and the terms they are sums of."""
    found: set[str] = set()
    for call in source.method_calls("backward", "manual_backward"):
        if source.is_inside(call, around):
            for term in terms(source, loss_of(source, call)):
                _add_terms(source, term, found, OPERANDS_DEPTH)
    return found


def loss_of(source: Source, call: ast.Call) -> ast.expr:
    """The loss of ``loss.backward()``, ``engine.backward(loss)``, ``scale(loss).backward()``."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    if call.args and WRAPPER.search(source.name_of(owner).rpartition(".")[2]):
        return call.args[0]
    match owner:
        case ast.Call(func=ast.Attribute(attr="scale"), args=[loss]):
            return loss
    return owner


def _add_terms(source: Source, term: ast.Name, found: set[str], depth: int) -> None:
    """A term, and those of what was computed for it; a number has no graph to be kept."""
    found.add(term.id)
    for value in source.assigned(term) or [] if depth else []:
        for each in terms(source, value):
            if any(isinstance(v, ast.Call | ast.BinOp) for v in source.assigned(each) or []):
                _add_terms(source, each, found, depth - 1)


def is_differentiated_above(source: Source, term: ast.Name) -> bool:
    """Whether backward has certainly run on what a name holds here, so that it is a tensor."""
    for call in source.method_calls("backward"):
        loss = loss_of(source, call)
        before = (call.lineno, call.col_offset) < (term.lineno, term.col_offset)
        if isinstance(loss, ast.Name) and loss.id == term.id and before and not call.args:
            same = source.enclosing_function(call) is source.enclosing_function(term)
            if same and scopes.runs_before(source, call, term) and same_value(source, loss, term):
                return True
    return False


def terms(source: Source, value: ast.expr) -> Iterator[ast.Name]:
    """Names whose graph a value still has: ``a * 2 + b.mean()`` gives a and b."""
    if source.kind_of(value) in NUMBERS:
        return
    match value:
        case ast.Name():
            yield value
        case ast.BinOp(left=left, right=right):
            yield from terms(source, left)
            yield from terms(source, right)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in TENSOR_STILL:
            yield from terms(source, owner)


def evaluated_network(source: Source, evaluated: ast.Call) -> ast.expr | None:
    """What is put into evaluation mode: x of ``x.eval()`` and of ``x = Network().eval()``."""
    above = source.parent(evaluated)
    owner = evaluated.func.value if isinstance(evaluated.func, ast.Attribute) else None
    if isinstance(above, ast.Assign) and not isinstance(owner, ast.Name | ast.Attribute):
        return above.targets[0] if source.name_of(above.targets[0]) else None
    return owner if owner is not None and source.name_of(owner) else None
