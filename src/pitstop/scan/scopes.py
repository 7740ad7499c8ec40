"""Scopes: what is assigned to a name, and which of it can reach a use of that name."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pitstop.scan.source import Source

How = Literal["assign", "unpack", "augment", "loop", "with", "parameter", "other"]
Scope: TypeAlias = ast.AST  # a module, class or function; a lambda's parameters are its own
Bindings: TypeAlias = dict[tuple[Scope, str], list["Binding"]]

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)


@dataclass(frozen=True, slots=True)
class Binding:
    """One place that gives a name its value."""

    how: How
    target: ast.AST  # the name, attribute or parameter that is bound
    value: ast.expr | None = None  # the right side, the iterable, the default
    annotation: ast.expr | None = None
    index: int | None = None  # which item, when a tuple is unpacked
    nested: bool = False  # a part of that item: ``y`` in ``for i, (x, y) in ...``
    part: ast.comprehension | None = None  # of which it is the variable, unseen outside


def scope_of(source: "Source", node: ast.AST) -> Scope:
    """The function, class or module in which ``node`` looks up its names."""
    child, above = node, source.parent(node)
    while above is not None:
        if isinstance(above, ast.Lambda) and child is above.body:
            return above
        if isinstance(above, SCOPES) and isinstance(child, ast.stmt):
            return above
        child, above = above, source.parent(above)
    return source.tree


def read_bindings(source: "Source") -> Bindings:
    """All bindings of a file: names by scope, ``self.x`` by class."""
    found: Bindings = {}
    for name in source.nodes(ast.Name):
        if type(name.ctx) is not ast.Load:
            found.setdefault((scope_of(source, name), name.id), []).append(_binding(source, name))
    for attribute in source.nodes(ast.Attribute):
        if type(attribute.ctx) is ast.Store and isinstance(attribute.value, ast.Name):
            owner = source.enclosing_class(attribute) or scope_of(source, attribute)
            name_of_it = f"{attribute.value.id}.{attribute.attr}"
            found.setdefault((owner, name_of_it), []).append(_binding(source, attribute))
    for function in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
        for binding in _parameters(function.args):
            parameter = binding.target
            assert isinstance(parameter, ast.arg)
            found.setdefault((function, parameter.arg), []).insert(0, binding)
    return found


def _binding(source: "Source", target: ast.Name | ast.Attribute) -> Binding:
    """What the statement around a stored name does to it."""
    above = source.parent(target)
    child: ast.expr = target
    items: list[int] = []
    while isinstance(above, ast.Tuple | ast.List):
        items.append(above.elts.index(child))
        child, above = above, source.parent(above)
    index, nested = (items[-1] if items else None), len(items) > 1
    part = above if isinstance(above, ast.comprehension) else None
    match above:
        case ast.Assign(value=value) | ast.NamedExpr(value=value):
            how: How = "assign" if index is None else "unpack"
            return Binding(how, target, value, None, index, nested)
        case ast.AnnAssign(value=value, annotation=annotation):
            return Binding("assign", target, value, annotation)
        case ast.AugAssign(value=value):
            return Binding("augment", target, value)
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.comprehension(iter=value):
            return Binding("loop", target, value, None, index, nested, part)
        case ast.withitem(context_expr=value) if index is None:
            return Binding("with", target, value)
    return Binding("other", target)


def _parameters(arguments: ast.arguments) -> Iterator[Binding]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults, *arguments.kw_defaults]
    for parameter, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
        yield Binding("parameter", parameter, default, parameter.annotation)
    for parameter in filter(None, (arguments.vararg, arguments.kwarg)):
        yield Binding("other", parameter)


def is_local(source: "Source", name: ast.Name) -> bool:
    """Whether a function around ``name`` binds it, so that an import does not reach it."""
    scope = scope_of(source, name)
    while not isinstance(scope, ast.Module):
        if not isinstance(scope, ast.ClassDef) and (scope, name.id) in source.bindings:
            return True
        scope = scope_of(source, scope)
    return False


def reaching(source: "Source", node: ast.Name | ast.Attribute) -> list[Binding]:
    """The bindings whose value ``node`` may hold; empty when there is none in this file."""
    if isinstance(node, ast.Attribute):
        return _attribute_bindings(source, node)
    scope = scope_of(source, node)
    found = source.bindings.get((scope, node.id), [])
    own = [each for each in found if each.part and _sees(source, node, each.part)]
    if own:
        return own[-1:]
    if shared := _shared(found):
        return _before(source, node, shared, scope)
    while not isinstance(scope, ast.Module):
        scope = scope_of(source, scope)
        shared = _shared(source.bindings.get((scope, node.id), []))
        if shared and not isinstance(scope, ast.ClassDef):
            return shared
    return []


def _shared(bindings: list[Binding]) -> list[Binding]:
    """Those that the whole scope sees: no variables of comprehensions."""
    return [each for each in bindings if each.part is None]


def _sees(source: "Source", name: ast.AST, part: ast.comprehension) -> bool:
    """Whether the variable of this part of a comprehension is known where ``name`` is read."""
    whole = source.parent(part)
    inside = whole is not None and source.is_inside(name, whole)
    return inside and not source.is_inside(name, part.iter)


def _attribute_bindings(source: "Source", node: ast.Attribute) -> list[Binding]:
    """What the class assigns to ``self.x``; ``__init__`` alone when that is where it is set."""
    if not isinstance(node.value, ast.Name):
        return []
    owner = source.enclosing_class(node) or scope_of(source, node)
    found = source.bindings.get((owner, f"{node.value.id}.{node.attr}"), [])
    # `self.x = None` is how a slot for something else is declared.
    return [each for each in found if not _is_none(each.value)] or found


def _before(
    source: "Source", use: ast.Name, all_of_it: list[Binding], scope: Scope
) -> list[Binding]:
    """Bindings above ``use`` up to the one that always runs first, and those of the next round."""
    position = _position(use)
    path = _blocks_around(source, use)
    found: list[Binding] = []
    certain: Binding | None = None
    for binding in reversed(all_of_it):
        if binding.how == "augment" or _finished(binding) > position:
            continue
        found.append(binding)
        if binding.how == "parameter" or _block(source, binding.target) & path:
            certain = binding
            break
    found += _of_the_next_round(source, use, all_of_it, certain)
    return found or [each for each in all_of_it if scope is source.tree]


def _of_the_next_round(
    source: "Source", use: ast.Name, all_of_it: list[Binding], certain: Binding | None
) -> list[Binding]:
    """Bindings below ``use`` in a loop around it that no certain one in that loop hides."""
    loop = source.enclosing_loop(use)
    while loop is not None:
        if certain is not None and source.is_inside(certain.target, loop):
            return []
        outer = source.enclosing_loop(loop)
        if outer is None:
            position = _position(use)
            return [
                each
                for each in all_of_it
                if each.how != "augment"
                and _finished(each) > position
                and source.is_inside(each.target, loop)
            ]
        loop = outer
    return []


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _finished(binding: Binding) -> tuple[int, int]:
    """Where the binding has taken effect: after the value, or at once for a loop's target."""
    if binding.how in ("assign", "unpack") and binding.value is not None:
        return binding.value.end_lineno or 0, binding.value.end_col_offset or 0
    return _position(binding.target)


def _block(source: "Source", node: ast.AST) -> set[tuple[ast.AST, str]]:
    """The list of statements that a binding is sure in: a loop's own body for ``for``."""
    statement = source.statement(node)
    above = source.parent(statement)
    if isinstance(statement, BLOCKS):
        return {(statement, "body")}
    return {(above, _field(above, statement))} if above is not None else set()


def _blocks_around(source: "Source", node: ast.AST) -> set[tuple[ast.AST, str]]:
    found = set()
    child, above = node, source.parent(node)
    while above is not None:
        if isinstance(child, ast.stmt):
            found.add((above, _field(above, child)))
        if isinstance(above, SCOPES) and isinstance(child, ast.stmt):
            break
        child, above = above, source.parent(above)
    return found


def runs_before(source: "Source", one: ast.AST, other: ast.AST) -> bool:
    """Whether the first has run whenever the second runs, and stands above it."""
    above = _position(one) < _position(other)
    return above and bool(_block(source, one) & _blocks_around(source, other))


def _field(above: ast.AST, statement: ast.AST) -> str:
    """Which of an ``if``'s, loop's or ``try``'s lists holds the statement."""
    for field in ("orelse", "finalbody", "handlers"):
        if statement in getattr(above, field, ()):
            return field
    return "body"


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def assigned(source: "Source", node: ast.AST) -> list[ast.expr] | None:
    """The values behind the reaching bindings, if all of them are plain assignments."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    found = reaching(source, node)
    values = [each.value for each in found if each.how == "assign" and each.value is not None]
    return values if found and len(values) == len(found) else None
