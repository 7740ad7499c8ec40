"""Read a function's source, and let its product of queries and keys be another call.

The product is followed through the function: to the scale, a bias, a mask, other shapes, the
softmax, dropout, and into the product with the values. Anything else that becomes of it (it is
returned, kept, indexed, printed, used in a nested function), and the function stays as it is. So
does one that changes tensors in place, or enters a context, between the two products.
"""

import ast
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

NAME = "__pitstop_scores__"  # in the globals of a function: what is called for the product
SOFTMAX = (torch.softmax, F.softmax)
ONE_MORE = (torch.add, torch.mul, F.dropout)  # their first argument goes on
PRODUCTS = (torch.matmul, torch.bmm)
STAYING = {"view", "reshape", "to", "float", "double", "type_as", "contiguous", "add", "mul", "div"}
ASKING = {"size", "dim"}  # methods that tell of a tensor, and attributes
TELLING = {"shape", "ndim"}
OPERATORS = (ast.Add, ast.Mult, ast.Div)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
CONTEXTS = (ast.With, ast.AsyncWith)
CHANGES = (ast.AugAssign, ast.Yield, ast.YieldFrom, ast.Await)
UNSAFE = {"set_grad_enabled", "locals", "vars", "eval", "exec"}


class Leads(Exception):  # noqa: N818 (no error: it ends a search)
    """The scores go where they must not."""


class Site(NamedTuple):
    """A product whose scores become attention and nothing else."""

    product: ast.expr
    modules: tuple[str, ...]  # below ``self``: what the scores are handed to


def rewritten(function: FunctionType) -> CodeType | None:
    """The code it should have; None where there is nothing to fuse, or no safe way to."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename))
    if "softmax" not in text.lower():
        return None
    try:
        tree = ast.parse(text)
        node = _node_of(tree, code)
        sites = list(_sites(node, function.__globals__)) if node else []
        if not sites or _compiled(tree, code) != code:  # the file is not what was imported
            return None
    except (SyntaxError, ValueError, RecursionError):
        return None
    changed = _Exchange({each.product: each for each in sites}).visit(tree)
    return _compiled(ast.fix_missing_locations(changed), code)


def _node_of(tree: ast.Module, code: CodeType) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *[each.lineno for each in node.decorator_list]])
            if first == code.co_firstlineno:
                return node
    return None


def _compiled(tree: ast.Module, code: CodeType) -> CodeType | None:
    """What the function of that name and place is compiled to."""
    waiting = [compile(tree, code.co_filename, "exec", dont_inherit=True)]
    while waiting:
        made = waiting.pop()
        if (made.co_qualname, made.co_firstlineno) == (code.co_qualname, code.co_firstlineno):
            return made
        waiting += [each for each in made.co_consts if isinstance(each, CodeType)]
    return None


def _sites(function: ast.FunctionDef, names: dict[str, Any]) -> Iterator[Site]:
    body = _Body(function, names)
    for node in body.parents:
        if isinstance(node, ast.expr) and body.is_product(node):
            try:
                yield _Path(body, node).site()
            except Leads:
                continue


class _Body:
    """A function: who stands above whom, and what names mean."""

    def __init__(self, function: ast.FunctionDef, names: dict[str, Any]) -> None:
        self.function = function
        self.parents = {
            child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)
        }
        own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        own |= {each.id for each in self.parents if isinstance(each, ast.Name) and _stores(each)}
        self._names = {name: each for name, each in names.items() if name not in own}
        first = [*function.args.posonlyargs, *function.args.args][:1]
        self.has_self = [each.arg for each in first] == ["self"]

    def is_product(self, node: ast.expr) -> bool:
        """Whether it multiplies two tensors, and is no part of a nested function."""
        if self.above(node, SCOPES)[-1] is not self.function:
            return False
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.MatMult)
        if not isinstance(node, ast.Call) or node.keywords or _starred(node):
            return False
        called = self.meant(node.func)
        return (called in PRODUCTS and len(node.args) == 2) or (
            called is torch.einsum and len(node.args) == 3
        )

    def above(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
        """Those of these kinds around a node, the outermost first; the function comes first."""
        found = []
        while node is not self.function:
            node = self.parents[node]
            found += [node] if isinstance(node, kinds) else []
        return found[::-1] or [node]

    def meant(self, node: ast.expr) -> Any:
        """The function that a dotted global name stands for; None if it is no such name."""
        found = self._value(node)
        return found if callable(found) and not isinstance(found, torch.Tensor) else None

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._value(node.value), node.attr, None)
        return None

    def below_self(self, node: ast.expr) -> str:
        """``a.b`` for ``self.a.b``; empty for anything else."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        is_self = isinstance(node, ast.Name) and node.id == "self" and self.has_self
        return ".".join(reversed(names)) if is_self else ""


class _Path:
    """Where the scores of one product go."""

    def __init__(self, body: _Body, product: ast.expr) -> None:
        self._body = body
        self._product = product
        self._names: set[str] = set()
        self._modules: list[str] = []
        self._nodes: list[ast.AST] = [product]
        self._ends = 0
        self._softmax = False

    def site(self) -> Site:
        """The product, if all that becomes of its scores is attention."""
        self._climb(self._product)
        if not (self._ends and self._softmax):
            raise Leads
        self._look_around()
        return Site(self._product, tuple(dict.fromkeys(self._modules)))

    def _climb(self, node: ast.AST) -> None:
        """Go from an expression to what is made of it."""
        parent = self._body.parents[node]
        self._nodes.append(parent)
        match parent:
            case ast.BinOp(left, ast.MatMult(), _) if left is node:
                self._ends += 1
            case ast.BinOp(_, ast.Add() | ast.Mult(), _):
                self._climb(parent)
            case ast.BinOp(left, ast.Div(), _) if left is node:
                self._climb(parent)
            case ast.IfExp(test) if test is not node:
                self._climb(parent)
            case ast.Attribute(value, name) if value is node:
                self._method(parent, name)
            case ast.Call(_, arguments) if node in arguments:
                self._call(parent, arguments.index(node))
            case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)):
                self._carry(name)
            case _:
                raise Leads

    def _method(self, attribute: ast.expr, name: str) -> None:
        call = self._body.parents[attribute]
        if not isinstance(call, ast.Call) or call.func is not attribute:
            if name not in TELLING:
                raise Leads
        elif name == "matmul":
            self._ends += 1
        elif name == "softmax" or name in STAYING:
            self._softmax |= name == "softmax"
            self._climb(call)
        elif name not in ASKING:
            raise Leads

    def _call(self, call: ast.Call, place: int) -> None:
        if _starred(call):
            raise Leads
        called = self._body.meant(call.func)
        module = self._body.below_self(call.func)
        if (place == 0 and called in PRODUCTS) or (place == 1 and called is torch.einsum):
            self._ends += 1
        elif place == 0 and (called in SOFTMAX or called in ONE_MORE):
            self._softmax |= called in SOFTMAX
            self._climb(call)
        elif place == 1 and called in ONE_MORE[:2]:
            self._climb(call)
        elif module and len(call.args) == 1 and not call.keywords:  # what it is shows in the call
            self._softmax |= "softmax" in module.lower()
            self._modules.append(module)
            self._climb(call)
        elif not (isinstance(call.func, ast.Attribute) and call.func.attr == "type_as"):
            raise Leads

    def _carry(self, name: str) -> None:
        """Go on from a variable, wherever it is read."""
        if name in self._names:
            return
        self._names.add(name)
        for node in self._body.parents:
            match node:
                case ast.Global(names) | ast.Nonlocal(names) if name in names:
                    raise Leads
                case ast.arg(other) if other == name and node not in self._own_arguments():
                    raise Leads
                case ast.Name(other) if other == name:
                    self._variable(node)

    def _own_arguments(self) -> list[ast.arg]:
        given = self._body.function.args
        return [*given.posonlyargs, *given.args, *given.kwonlyargs]

    def _variable(self, node: ast.Name) -> None:
        if self._body.above(node, SCOPES)[-1] is not self._body.function:
            raise Leads
        parent = self._body.parents[node]
        if isinstance(node.ctx, ast.Load):
            self._climb(node)
        elif isinstance(parent, ast.AugAssign):
            self._nodes.append(parent)
            if not isinstance(parent.op, OPERATORS):
                raise Leads

    def _look_around(self) -> None:
        """Nothing may be changed in place, and no context entered, while the scores wait."""
        body = self._body
        contexts = [body.above(each, CONTEXTS) for each in self._nodes]
        if any(each != contexts[0] for each in contexts):
            raise Leads
        loops = [each for node in self._nodes for each in body.above(node, LOOPS)[:1]]
        nodes = [*self._nodes, *[each for each in loops if isinstance(each, LOOPS)]]
        first = min(each.lineno for each in nodes)  # type: ignore[attr-defined]
        last = max(each.end_lineno for each in nodes)  # type: ignore[attr-defined]
        for node in body.parents:
            if first <= getattr(node, "lineno", 0) <= last and self._changes(node):
                raise Leads

    def _changes(self, node: ast.AST) -> bool:
        match node:
            case ast.AugAssign(ast.Name(name)) if name in self._names:
                return False
            case ast.Attribute(attr="data", ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                return True
            case ast.Call(ast.Attribute(attr=name)) | ast.Call(ast.Name(name)):
                in_place = name.endswith("_") and not name.endswith("__")
                return in_place or name in UNSAFE
            case ast.keyword("out" | "inplace"):
                return True
        return isinstance(node, CHANGES)


class _Exchange(ast.NodeTransformer):
    """Calls of ours in place of the products."""

    def __init__(self, sites: dict[ast.expr, Site]) -> None:
        self._sites = sites

    def generic_visit(self, node: ast.AST) -> ast.AST:
        site = self._sites.get(node)  # type: ignore[call-overload]
        super().generic_visit(node)
        if site is None:
            return node
        function: ast.expr = ast.Constant(None)
        if isinstance(node, ast.Call):
            function, arguments = node.func, node.args
        else:
            arguments = [node.left, node.right]  # type: ignore[attr-defined]
        owner: ast.expr = ast.Name("self", ast.Load()) if site.modules else ast.Constant(None)
        given = [owner, ast.Constant(site.modules), function, *arguments]
        return ast.copy_location(ast.Call(ast.Name(NAME, ast.Load()), given, []), node)


def _starred(call: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in call.args)


def _stores(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)
