"""Rewrite a module's ``forward`` so that each GroupNorm takes the SiLU that follows it.

Blocks of the wild write the pair in four ways: ``act(self.norm(x))``; ``h = self.norm(x)`` and then
``h = act(h)``; the same with ``h * torch.sigmoid(h)``; or the norm at the end of every branch of an
``if`` and the activation after it. All four become ``self.norm.with_silu(x)``. Nothing else in the
function changes: it is compiled from the same source, with the same globals and line numbers.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F

LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


@lru_cache(maxsize=1024)
def forward_with_silu(
    forward: FunctionType, norms: frozenset[str], silus: frozenset[str]
) -> FunctionType | None:
    """Return the rewritten function; None where there is no pair to fuse or no safe way to.

    ``norms`` and ``silus`` are the paths below ``self`` that hold a fused norm or an ``nn.SiLU``.
    """
    tree = _parse(forward)
    if tree is None:
        return None
    fuser = _Fuser(forward.__globals__, norms, silus)
    fuser.visit(tree)
    if not fuser.fused:
        return None
    ast.increment_lineno(tree, forward.__code__.co_firstlineno - 1)
    module = compile(ast.fix_missing_locations(tree), forward.__code__.co_filename, "exec")
    code = next(each for each in module.co_consts if isinstance(each, CodeType))
    made = FunctionType(code, forward.__globals__, forward.__name__, forward.__defaults__)
    made.__kwdefaults__ = forward.__kwdefaults__
    return made


def _parse(forward: FunctionType) -> ast.Module | None:
    """The function's syntax tree, unless compiling it alone would change its meaning."""
    if forward.__closure__:  # super() and other names of an enclosing scope
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, SyntaxError, TypeError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return None
    attributes = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    if any(name.startswith("__") and not name.endswith("__") for name in attributes):
        return None  # a private name means something else outside its class
    return tree


class _Fuser(ast.NodeTransformer):
    """Find the pairs and replace them; ``fused`` counts."""

    def __init__(
        self, names: Mapping[str, Any], norms: frozenset[str], silus: frozenset[str]
    ) -> None:
        self.names, self.norms, self.silus = names, norms, silus
        self.fused = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, self._fuse_block(block))
        return super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Fuse ``act(self.norm(x))``."""
        self.generic_visit(node)
        if self._is_silu(node.func) and len(node.args) == 1 and self._is_norm(node.args[0]):
            return self._with_silu(node.args[0])
        return node

    def _fuse_block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        fused: list[ast.stmt] = []
        for statement in block:
            if fused and self._absorb(fused[-1], statement):
                continue
            fused.append(statement)
        return fused

    def _absorb(self, before: ast.stmt, statement: ast.stmt) -> bool:
        """Fuse ``statement``, if it is an activation, into the norm that ``before`` ends with."""
        name = self._activated(statement)
        if name is None:
            return False
        if isinstance(before, ast.If) and self._ends_with_norm(before, name):
            self._push_into_branches(before, statement)
            return True
        if isinstance(before, ast.Assign) and self._assigns_norm(before, name):
            before.value = self._with_silu(before.value)
            return True
        return False

    def _push_into_branches(self, branch: ast.If, activation: ast.stmt) -> None:
        for block in (branch.body, branch.orelse):
            last = block[-1] if block else None
            if isinstance(last, LEAVES):
                continue
            if last is None or not self._absorb(last, activation):
                block.append(activation)

    def _ends_with_norm(self, statement: ast.stmt | None, name: str) -> bool:
        if isinstance(statement, ast.If):
            lasts = [block[-1] for block in (statement.body, statement.orelse) if block]
            return any(self._ends_with_norm(last, name) for last in lasts)
        return isinstance(statement, ast.Assign) and self._assigns_norm(statement, name)

    def _assigns_norm(self, statement: ast.Assign, name: str) -> bool:
        return _target(statement) == name and self._is_norm(statement.value)

    def _activated(self, statement: ast.stmt) -> str | None:
        """The variable that ``statement`` replaces by its SiLU, if that is all it does."""
        if not isinstance(statement, ast.Assign) or (name := _target(statement)) is None:
            return None
        match statement.value:
            case ast.Call(func, [ast.Name(id=argument)]) if argument == name:
                return name if self._is_silu(func) else None
            case ast.BinOp(ast.Name(id=one), ast.Mult(), ast.Call() as gate) if one == name:
                return name if self._is_sigmoid(gate, name) else None
            case ast.BinOp(ast.Call() as gate, ast.Mult(), ast.Name(id=one)) if one == name:
                return name if self._is_sigmoid(gate, name) else None
        return None

    def _is_sigmoid(self, call: ast.Call, name: str) -> bool:
        match call:
            case ast.Call(ast.Attribute(ast.Name(id=one), "sigmoid"), []):
                return one == name
            case ast.Call(func, [ast.Name(id=one)], []):
                return one == name and self._global(func) in (torch.sigmoid, F.sigmoid)
        return False

    def _is_norm(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
            return False
        return not isinstance(node.args[0], ast.Starred) and _path(node.func) in self.norms

    def _is_silu(self, func: ast.expr) -> bool:
        path = _path(func)
        return path in self.silus if path else is_silu(self._global(func))

    def _global(self, node: ast.expr) -> Any:
        """What a dotted global name stands for; None if it is not one."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._global(node.value), node.attr, None)
        return None

    def _with_silu(self, norm: ast.expr) -> ast.expr:
        assert isinstance(norm, ast.Call)
        self.fused += 1
        func = ast.Attribute(norm.func, "with_silu", ast.Load())
        return ast.copy_location(ast.Call(func, norm.args, []), norm)


def _target(statement: ast.Assign) -> str | None:
    """The one plain variable that is assigned."""
    match statement.targets:
        case [ast.Name(id=name)]:
            return name
    return None


def _path(node: ast.expr) -> str:
    """``a.b`` for the expression ``self.a.b``; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(reversed(names)) if isinstance(node, ast.Name) and node.id == "self" else ""


@lru_cache(maxsize=1024)
def is_silu(function: Any) -> bool:
    """Whether a function is ``F.silu``, or a plain Python function that computes the same."""
    if function is F.silu:
        return True
    if not isinstance(function, FunctionType) or function.__code__.co_argcount != 1:
        return False
    if not {"sigmoid", "silu"} & set(function.__code__.co_names):
        return False  # never call a function that could not be one
    probe = torch.linspace(-8, 8, 33)
    try:
        answer = function(probe.clone())
    except (RuntimeError, TypeError, AttributeError, ValueError):
        return False
    return isinstance(answer, torch.Tensor) and torch.allclose(answer, F.silu(probe))
