"""Hot: what runs once per step, frame or sample, and why we believe so."""

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pitstop.scan.guards import is_behind_an_exit, is_rare_branch, runs_once
from pitstop.scan.loops import Heat, HotKind, loop_heat, turns_gradients_off

if TYPE_CHECKING:
    from pitstop.scan.source import Source

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While, ast.With, ast.If, ast.Try)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# What can change the place of its children; all else is passed by at once.
MATTERS = {
    *(*BLOCKS, *COMPREHENSIONS, ast.ClassDef, ast.AsyncWith, ast.IfExp, ast.ExceptHandler),
    *(ast.match_case, ast.TryStar),
}


@dataclass(frozen=True, slots=True)
class Hot:
    """How often code runs: ``kind`` says per what, ``reason`` how we know."""

    kind: HotKind
    reason: str  # "forward of Encoder", "loop over train_loader at train.py:88"
    guarded: bool = False  # rare in it: under `if step % 100 == 0`, in `except`, on first use
    depth: int = 0  # calls between the hot loop or method and this function
    line: int = 0  # where the reason is, in ``path``
    path: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is: its function, the hot loop around it there, and what guards it."""

    function: Function | None = None
    heat: Heat | None = None
    guarded: bool = False
    evaluation: bool = False  # under torch.no_grad or inference_mode
    loop: ast.AST | None = None  # the hot loop


def hot(source: "Source", node: ast.AST) -> Hot | None:
    """Whether ``node`` is inside a hot loop, or in a function that is hot itself."""
    place = place_of(source, node)
    if place.heat is not None:
        reason = f"{place.heat.reason} at {source.path or 'line'}:{place.heat.line}"
        return Hot(place.heat.kind, reason, place.guarded, 0, place.heat.line, source.path)
    if place.function is None:
        return None
    found = source.project.hot_function(source.path, source.qualified_name(place.function))
    return replace(found, guarded=found.guarded or place.guarded) if found else None


def place_of(source: "Source", node: ast.AST) -> Place:
    """The place of a node, remembered for its whole way up."""
    known = source.places
    way = []
    above: ast.AST | None = node
    while above is not None and above not in known:
        way.append(above)
        above = source.parent(above)
    place = known[above] if above is not None else Place()
    for child in reversed(way):
        parent = source.parent(child)
        if parent is not None:
            place = _enter(source, place, parent, child)
        known[child] = place
    return place


def _enter(source: "Source", place: Place, parent: ast.AST, child: ast.AST) -> Place:
    """The place of ``child``, given the place of the node that holds it."""
    if parent.__class__ not in MATTERS:
        return place
    if isinstance(parent, ast.ClassDef):
        return Place()
    if isinstance(parent, FUNCTIONS) and isinstance(child, ast.stmt):
        off = turns_gradients_off(source, parent.decorator_list)
        place = Place(parent, evaluation=off)
    elif isinstance(parent, ast.With | ast.AsyncWith) and isinstance(child, ast.stmt):
        items = [item.context_expr for item in parent.items]
        off = place.evaluation or turns_gradients_off(source, items)
        place = replace(place, evaluation=off)
    elif _is_repeated(parent, child):
        place = _enter_loop(source, place, parent)
    if place.guarded or not _is_guarded(source, place, parent, child):
        return place
    return replace(place, guarded=True)


def _is_guarded(source: "Source", place: Place, parent: ast.AST, child: ast.AST) -> bool:
    """Whether the step from ``parent`` to ``child`` is taken only now and then."""
    block = isinstance(parent, BLOCKS) and isinstance(child, ast.stmt)
    if isinstance(child, ast.Raise) or (block and is_behind_an_exit(source, parent, child)):
        return True
    if isinstance(parent, ast.If | ast.ExceptHandler | ast.IfExp):
        rare = is_rare_branch(source, parent, child)
        if rare or not isinstance(parent, ast.If) or place.loop is None:
            return rare
        return runs_once(parent, child, source.enclosing_loop(parent) is place.loop)
    return False


def _enter_loop(source: "Source", place: Place, parent: ast.AST) -> Place:
    loop = parent.generators[0] if isinstance(parent, COMPREHENSIONS) else parent
    heat = loop_heat(source, loop, place.evaluation)
    if heat is None:
        return place
    # A guard around a loop that is not itself in a hot one says how often the loop starts,
    # not how often its body runs; and validation is counted per validation, however rare.
    rare = place.guarded and place.heat is not None and heat.kind != "validation"
    return replace(place, heat=heat, guarded=rare, loop=parent)


def _is_repeated(parent: ast.AST, child: ast.AST) -> bool:
    """Whether ``child`` runs every round of ``parent``; an iterable is evaluated once."""
    if isinstance(parent, ast.For | ast.AsyncFor | ast.While):
        return isinstance(child, ast.stmt) and child not in parent.orelse
    return isinstance(parent, COMPREHENSIONS) and child is not parent.generators[0]
