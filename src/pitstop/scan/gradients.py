"""Gradients: where they are off, as far as files and callers tell, and where they flow."""

import ast
import re
from collections.abc import Iterator

from pitstop.scan.call_graph import is_test
from pitstop.scan.hot import place_of
from pitstop.scan.names import module_name
from pitstop.scan.source import Function, Source

# Reading these tells that gradients are turned off, or wanted, in a way we do not follow.
OTHER_WAYS = re.compile(
    r"requires_grad_\((?:False|requires_grad=False)\)|requires_grad\s*=\s*False|set_grad_enabled"
    r"|autograd\.grad|torch\.jit\.trace|torch\.onnx"
)
CALLERS_DEPTH = 3  # callers of callers that may turn gradients off
TENSOR_STILL = {"mean", "sum", "clone", "cpu", "cuda", "to", "float", "squeeze", "view"}
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
    return not inside and _is_called_elsewhere(source, function.name)


def _is_called_elsewhere(source: Source, name: str) -> bool:
    targets = (name, f".{name}", f"self.{name}")
    return any(
        call.target in targets or call.target.endswith(f".{name}")
        for file in source.project.files
        if file.path != source.path
        for each in file.functions
        for call in each.calls
    )


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
        if not isinstance(call.func, ast.Attribute) or not source.is_inside(call, around):
            continue
        inner = call.func.value
        scaled = [*inner.args] if isinstance(inner, ast.Call) else [inner]
        for node in [*scaled, *call.args]:
            _add_terms(source, node, found, OPERANDS_DEPTH)
    return found


def _add_terms(source: Source, node: ast.expr, found: set[str], depth: int) -> None:
    for term in terms(node):
        found.add(term.id)
        for value in source.assigned(term) or [] if depth else []:
            _add_terms(source, value, found, depth - 1)


def terms(value: ast.expr) -> Iterator[ast.Name]:
    """Names whose graph a value still has: ``a * 2 + b.mean()`` gives a and b."""
    match value:
        case ast.Name():
            yield value
        case ast.BinOp(left=left, right=right):
            yield from terms(left)
            yield from terms(right)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in TENSOR_STILL:
            yield from terms(owner)


def evaluated_network(source: Source, evaluated: ast.Call) -> ast.expr | None:
    """What is put into evaluation mode: x of ``x.eval()`` and of ``x = Network().eval()``."""
    above = source.parent(evaluated)
    owner = evaluated.func.value if isinstance(evaluated.func, ast.Attribute) else None
    if isinstance(above, ast.Assign) and not isinstance(owner, ast.Name | ast.Attribute):
        return above.targets[0] if source.name_of(above.targets[0]) else None
    return owner if owner is not None and source.name_of(owner) else None
