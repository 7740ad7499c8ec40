"""Edits: the source without what nobody needs, where that is plain to see.

Three shapes are plain. A term with a weight stands behind ``if weight:``. A result whose name
nobody reads is not computed. A result that one branch alone reads is computed in that branch.
Everything else is said in a sentence, and `pitstop prove` judges what a person makes of it.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from pitstop.core.finding import Edit
from pitstop.scan.edits import line_indent, newline
from pitstop.scan.source import Function, Source
from pitstop.tune.patch.built import block_of
from pitstop.tune.patch.regions import has_lines_alone, indent_unit

ASSIGNS = (ast.Assign, ast.AnnAssign)


def guarded(source: Source, line: int, calls: Sequence[int]) -> list[Edit] | None:
    """A term that is multiplied by zero, behind a condition: its weight is the condition."""
    statement = _statement(source, line)
    term = _term(source, statement) if statement is not None else None
    if statement is None or term is None:
        return None
    block = block_of(source, statement)
    last = block.index(statement)
    first = min((_index(block, each) for each in calls), default=last)
    moved = block[first : last + 1]
    if not all(map(_is_plain, moved[:-1])):
        return None
    given = {name: None for each in moved[:-1] for name in _assigned(each)}
    before, after = _reads(source, moved)
    if given.keys() & {*before, *_names(term.without), *_names(term.weight)}:
        return None
    zeros = [f"{name} = {term.total}.new_zeros(())" for name in given if name in after]
    return _behind(source, moved, ast.unparse(term.weight), [*term.otherwise, *zeros])


@dataclass(frozen=True, slots=True)
class Term:
    """``total = rest + weight * value``: what it is without the term, and the weight."""

    weight: ast.expr
    total: str
    without: ast.expr

    @property
    def otherwise(self) -> list[str]:
        """The statement for a weight of zero; none where nothing is to be done then."""
        rest = ast.unparse(self.without)
        return [] if rest == self.total else [f"{self.total} = {rest}"]


def _term(source: Source, statement: ast.stmt) -> Term | None:
    """What a statement adds to a sum with a weight; none where it does not only that."""
    match statement:
        case ast.AugAssign(target=ast.Name() as target, op=ast.Add() | ast.Sub(), value=value):
            weight = _weight(source, value)
            return Term(weight, target.id, target) if weight else None
        case ast.Assign(targets=[ast.Name() as target], value=ast.BinOp() as value):
            terms = _summands(value)
            weights = [_weight(source, each) for each in terms]
            found = [place for place, each in enumerate(weights) if each]
            weight = weights[found[0]] if len(found) == 1 else None
            if len(terms) < 2 or weight is None:
                return None
            without, *rest = [each for place, each in enumerate(terms) if place != found[0]]
            for each in rest:
                without = ast.BinOp(without, ast.Add(), each)
            return Term(weight, target.id, without)
    return None


def _summands(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [*_summands(left), *_summands(right)]
    return [value]


def _weight(source: Source, value: ast.expr) -> ast.expr | None:
    """The factor of a product that is given a zero somewhere in its function."""
    found = [each for each in _factors(value) if _may_be_zero(source, each)]
    return found[0] if len(found) == 1 else None


def _factors(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return [*_factors(left), *_factors(right)]
    return [value]


def _may_be_zero(source: Source, factor: ast.expr) -> bool:
    """Whether it is a name that the function sets to zero, or to zero under a condition."""
    scope: ast.AST = source.enclosing_function(factor) or source.tree
    return isinstance(factor, ast.Name) and any(
        _id(target) == factor.id and any(map(_is_zero, ast.walk(each.value)))
        for each in ast.walk(scope)
        if isinstance(each, ast.Assign)
        for target in each.targets
    )


def _is_zero(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in {int, float} and not node.value


def unread(source: Source, line: int) -> list[Edit] | None:
    """An assignment whose name nobody reads; of a tuple of calls, the one that nobody reads."""
    statement = _statement(source, line)
    function = source.enclosing_function(statement) if statement is not None else None
    if statement is None or function is None:
        return None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
            if not _is_read(function, name, statement) and has_lines_alone(
                source, statement, statement
            ):
                return _without(source, statement)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return _shorter(source, function, statement, names, values)
    return None


def _shorter(
    source: Source,
    function: Function,
    statement: ast.Assign,
    names: list[ast.expr],
    values: list[ast.expr],
) -> list[Edit] | None:
    if len(names) != len(values) or not all(isinstance(each, ast.Name) for each in names):
        return None
    both = [
        (each, value)
        for each, value in zip(names, values, strict=True)
        if not (isinstance(value, ast.Call) and not _is_read(function, _id(each), statement))
    ]
    if not both or len(both) == len(names):
        return None
    left = ", ".join(source.text_of(each) for each, _ in both)
    right = ", ".join(source.text_of(each) for _, each in both)
    return [Edit(*source.extent(statement), f"{left} = {right}", source.path)]


def sunk(source: Source, line: int) -> list[Edit] | None:
    """An assignment that one branch of a later ``if`` alone reads, moved into that branch."""
    statement = _statement(source, line)
    function = source.enclosing_function(statement) if statement is not None else None
    if not isinstance(statement, ast.Assign) or function is None or not _is_plain(statement):
        return None
    block = block_of(source, statement)
    first = block.index(statement)
    for place in range(first + 1, len(block)):
        if isinstance(condition := block[place], ast.If):
            return _into(source, function, block[first:place], condition)
    return None


def _into(
    source: Source, function: Function, between: list[ast.stmt], condition: ast.If
) -> list[Edit] | None:
    """The first of these statements, and those that need it, into the branch that reads them."""
    moved = [between[0]]
    for each in between[1:]:
        if _names(each) & {name for one in moved for name in _assigned(one)}:
            moved.append(each)
    kept = [each for each in between if each not in moved]
    names = {name for each in moved for name in _assigned(each)}
    needed = {name for each in moved for name in _names(each)}
    clash = needed & {name for each in kept for name in _assigned(each)}
    if clash or not all(map(_is_plain, moved)) or names & _names(condition.test):
        return None
    branches = [branch for branch in (condition.body, condition.orelse) if branch]
    reading = [branch for branch in branches if any(names & _names(each) for each in branch)]
    inside = {
        id(node) for each in (*moved, *(reading[0] if reading else ())) for node in ast.walk(each)
    }
    elsewhere = any(
        isinstance(node, ast.Name) and node.id in names and id(node) not in inside
        for node in ast.walk(function)
    )
    only = len(reading) == 1 and reading[0] is condition.body
    if elsewhere or not only or not all(has_lines_alone(source, each, each) for each in moved):
        return None
    indent = line_indent(source, condition.body[0])
    lines = [indent + _text(source, each) + newline(source) for each in moved]
    start = source.lines.starts[condition.body[0].lineno - 1]
    gone = [edit for each in moved for edit in _without(source, each)]
    return [*gone, Edit(start, start, "".join(lines), source.path)]


def _behind(
    source: Source, moved: list[ast.stmt], weight: str, otherwise: list[str]
) -> list[Edit] | None:
    """The statements below ``if weight:``, and those that take their place otherwise."""
    if not has_lines_alone(source, moved[0], moved[-1]):
        return None
    indent, unit, end = line_indent(source, moved[0]), indent_unit(source), newline(source)
    texts = [indent + unit + _text(source, each).replace(end, end + unit) for each in moved]
    lines = [f"{indent}if {weight}:", *texts]
    if otherwise:
        lines += [f"{indent}else:", *(f"{indent}{unit}{each}" for each in otherwise)]
    start = source.lines.starts[moved[0].lineno - 1]
    return [Edit(start, source.extent(moved[-1])[1], end.join(lines), source.path)]


def _text(source: Source, statement: ast.stmt) -> str:
    """A statement with the comment behind it."""
    end = source.extent(statement)[1]
    rest = source.text[end:].splitlines()[:1]
    comment = rest[0] if rest and rest[0].strip().startswith("#") else ""
    return source.text_of(statement) + comment


def _without(source: Source, statement: ast.stmt) -> list[Edit]:
    start = source.lines.starts[statement.lineno - 1]
    last = statement.end_lineno or statement.lineno
    starts = source.lines.starts
    end = starts[last] if last < len(starts) else len(source.text)
    return [Edit(start, end, "", source.path)]


def _statement(source: Source, line: int) -> ast.stmt | None:
    """The innermost simple statement of a line."""
    found = [
        each
        for each in source.nodes(ast.Assign, ast.AugAssign)
        if each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    return found[-1] if found else None


def _index(block: list[ast.stmt], line: int) -> int:
    """Which statement of a block a line is in; the block's end where it is in none."""
    for place, each in enumerate(block):
        if each.lineno <= line <= (each.end_lineno or each.lineno):
            return place
    return len(block)


def _is_plain(statement: ast.stmt) -> bool:
    """Whether it only gives names to values, and says nothing."""
    if not isinstance(statement, ASSIGNS):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    plain = all(isinstance(each, ast.Name | ast.Tuple) for each in targets)
    return plain and not any(
        isinstance(each, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        for each in ast.walk(statement)
    )


def _assigned(statement: ast.AST) -> set[str]:
    stores = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in stores if not isinstance(each.ctx, ast.Load)}


def _names(node: ast.AST) -> set[str]:
    """The names that are read in it."""
    loads = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in loads if isinstance(each.ctx, ast.Load)}


def _reads(source: Source, moved: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """The names that are read before these statements, and after them, in their function."""
    scope: ast.AST = source.enclosing_function(moved[0]) or source.tree
    loads = [
        each
        for each in ast.walk(scope)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    ]
    last = moved[-1].end_lineno or moved[-1].lineno
    before = {each.id for each in loads if each.lineno < moved[0].lineno}
    return before, {each.id for each in loads if each.lineno > last}


def _is_read(function: Function, name: str, statement: ast.stmt) -> bool:
    inside = {id(each) for each in ast.walk(statement)}
    words = {"locals", "vars", "eval", "exec"}  # which read any name
    return any(
        isinstance(each, ast.Name)
        and isinstance(each.ctx, ast.Load)
        and id(each) not in inside
        and (each.id == name or each.id in words)
        for each in ast.walk(function)
    )


def _id(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
