"""Variables: tensors that the script holds by name right now, and the lines that made them.

Looked at once in a run, when a loss is not finite. A tensor without a graph may come out of the
dataset or out of a computation that needed no gradient; the source of its assignment tells.
"""

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from pitstop.profile.forensics.written import is_nan
from pitstop.profile.source.lines import Place, line_of, origin_of

OPTIMIZED = 0x1  # flag of a code object whose ``f_locals`` is a copy, as in every function
MOST_TENSORS = 200  # looked at in all
DEEPEST = 2  # containers in containers: a batch is often a dictionary of lists
WRITTEN = "nan"  # no operation: the script writes it by its name
RISKY = {"log", "log2", "log10", "sqrt", "rsqrt", "exp", "pow", "mean", "std", "var", "norm", "div"}


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor without a graph that a running function of the script holds."""

    name: str
    tensor: torch.Tensor
    code: CodeType
    line: int  # where that function is now


@dataclass(frozen=True, slots=True)
class Assigned:
    """A line that gives a variable its value; ``operation`` where it computes a risky one."""

    line: int
    operation: str = ""
    operand: str = ""  # the variable that it is taken of


def variables(frame: FrameType | None) -> Iterator[Variable]:
    """Tensors in the running functions, innermost first; torch's own functions are left out."""
    left = MOST_TENSORS
    while frame is not None and left > 0:
        if origin_of(frame.f_code.co_filename) != "hidden":
            for name, tensor in _tensors(frame)[:left]:
                left -= 1
                yield Variable(name, tensor, frame.f_code, line_of(frame))
        frame = frame.f_back


def place_of(variable: Variable, line: int) -> Place:
    """A line of the function that holds the variable."""
    return variable.code.co_filename, line, variable.code.co_qualname


def assigned(variable: Variable) -> Assigned | None:
    """The last assignment above the line at which the function is; ``None`` if none is found."""
    source = "".join(linecache.getlines(variable.code.co_filename))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    first = variable.code.co_firstlineno
    found = [each for each in _assignments(tree, variable.name) if first <= each.line]
    above = [each for each in found if each.line <= variable.line]
    return max(above or found, key=lambda each: each.line, default=None)


def _tensors(frame: FrameType) -> list[tuple[str, torch.Tensor]]:
    values = frame.f_locals
    found = [
        (name, tensor)
        for name, value in list(values.items())
        for tensor in _inside(value, DEEPEST)
        if tensor.grad_fn is None and not tensor.requires_grad
    ]
    if frame.f_code.co_flags & OPTIMIZED and isinstance(values, dict):
        values.clear()  # a copy, which Python before 3.13 would keep, and every tensor in it
    return found


def _inside(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and type(value) in {list, tuple, dict}:
        for each in list(value.values() if isinstance(value, dict) else value)[:MOST_TENSORS]:
            yield from _inside(each, depth - 1)


def _assignments(tree: ast.AST, name: str) -> Iterator[Assigned]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                targets = [target]
            case ast.For(target=target, iter=value):
                targets, value = [target], ast.Constant(None)
            case _:
                continue
        if any(
            isinstance(each, ast.Name) and each.id == name for t in targets for each in ast.walk(t)
        ):
            divides = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div)
            risky = ("div", _name(value)) if divides else _risky(value)
            yield Assigned(node.lineno, *risky)


def _risky(value: ast.AST) -> tuple[str, str]:
    """The operation in an expression that can make finite numbers infinite, and what it is of."""
    if is_nan(value):
        return WRITTEN, ""
    for node in ast.walk(value):
        match node:
            case ast.BinOp(op=ast.Div(), right=right) if not isinstance(right, ast.Constant):
                return "div", _name(right)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in RISKY:
                return name, _name(node.args[0]) if node.args else _name(owner)
            case ast.Call(func=ast.Name(id=name)) if name in RISKY:
                return name, _name(node.args[0]) if node.args else ""
    return "", ""


def _name(value: ast.AST) -> str:
    return value.id if isinstance(value, ast.Name) else ""
