"""Regions: the statements from the call of a model to the backward pass, and a context for them."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.finding import Edit
from pitstop.scan.edits import line_indent, newline
from pitstop.scan.source import Source
from pitstop.tune.patch.built import ModelCall, block_of, model_calls
from pitstop.tune.patch.sites import Left, Sites

BACKWARD = {"backward", "manual_backward"}
MOST_CALLERS = 5  # functions between a model's call and the loop that learns from it
OUTSIDE = {
    "zero_grad",
    "print",
    "add_scalar",
    "log",
    "set_description",
}  # need no context at the end


@dataclass(frozen=True, slots=True)
class Region:
    """Neighbouring statements of one block, and the statement behind them that learns from it."""

    model: ModelCall
    source: Source
    statements: tuple[ast.stmt, ...]  # none where the model is called in ``backward`` itself
    backward: ast.stmt
    call: ast.Call  # of ``backward``


def learning_regions(sites: Sites) -> Iterator[Region | Left]:
    """Every stretch from a model's call to the backward pass after it; each of them once."""
    found: dict[tuple[str, int], Region] = {}
    for model in model_calls(sites):
        if isinstance(model, Left):
            yield model
            continue
        own = list(_regions(sites, model, model.source, model.call, MOST_CALLERS))
        if not own:
            yield Left(f"no backward pass follows {called_from(model)} in one block")
        for each in own:
            key = each.source.path, each.backward.lineno
            if key not in found or _begin(each) < _begin(found[key]):
                found[key] = each
    yield from found.values()


def _begin(region: Region) -> int:
    return min((each.lineno for each in region.statements), default=region.backward.lineno)


def _regions(
    sites: Sites, model: ModelCall, source: Source, node: ast.AST, left: int
) -> Iterator[Region]:
    """From the statement of ``node``, or of a call of the function that it is in."""
    region = _in_block(model, source, node)
    if region:
        yield region
        return
    function = source.enclosing_function(node)
    if function is None or not left:
        return
    for each in sites.sources:
        for call in each.nodes(ast.Call):
            called = call.func
            name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
            if name == function.name and each.enclosing_function(call) is not function:
                yield from _regions(sites, model, each, call, left - 1)


def _in_block(model: ModelCall, source: Source, node: ast.AST) -> Region | None:
    """The stretch to the next backward pass in one of the blocks around ``node``."""
    function = source.enclosing_function(node)
    calls = [
        each
        for each in source.method_calls(*BACKWARD)
        if source.enclosing_function(each) is function
        and isinstance(source.statement(each), ast.Expr)
    ]
    calls.sort(key=lambda each: (each.lineno, each.col_offset))
    statement: ast.AST | None = source.statement(node)
    while isinstance(statement, ast.stmt) and statement is not function:
        block = block_of(source, statement)
        first = block.index(statement)
        for call in calls:
            holder = _holder(source, block, call)
            if holder is not None and (holder > first or source.statement(call) is statement):
                kept = _trimmed(block[first:holder])
                return Region(model, source, tuple(kept), block[holder], call)
        statement = source.parent(statement)
    return None


def _holder(source: Source, block: list[ast.stmt], node: ast.AST) -> int | None:
    """Which statement of a block is around ``node``."""
    for position, each in enumerate(block):
        if source.is_inside(node, each):
            return position
    return None


def _trimmed(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Without the last ones that compute nothing."""
    kept = list(statements)
    while len(kept) > 1 and _computes_nothing(kept[-1]):
        kept.pop()
    return kept


def _computes_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in OUTSIDE
    return False


def put_in(source: Source, statements: tuple[ast.stmt, ...], header: str) -> list[Edit] | None:
    """Indent statements below a ``with ...:``; none where they share a line with others."""
    first, last = statements[0], statements[-1]
    indent = line_indent(source, first)
    if not has_lines_alone(source, first, last):
        return None
    unit = indent_unit(source)
    strings = _inside_strings(source.text)
    edits = []
    for number in range(_first_line(first), (last.end_lineno or last.lineno) + 1):
        start = source.lines.starts[number - 1]
        text = (
            source.text[start : source.lines.starts[number]]
            if (number < len(source.lines.starts))
            else source.text[start:]
        )
        new = unit if text.strip() and number not in strings else ""
        if number == _first_line(first):
            new = f"{indent}{header}{newline(source)}{new}"
        if new:
            edits.append(Edit(start, start, new, source.path))
    return edits


def _first_line(statement: ast.stmt) -> int:
    above: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in above)])


def has_lines_alone(source: Source, first: ast.stmt, last: ast.stmt) -> bool:
    """Whether nothing else stands on their lines, but for a comment behind them."""
    start, end = source.extent(first)[0], source.extent(last)[1]
    line_start = source.lines.starts[first.lineno - 1]
    rest = source.text[end:].splitlines()[:1]
    behind = rest[0].strip() if rest else ""
    return not source.text[line_start:start].strip() and (not behind or behind.startswith("#"))


def indent_unit(source: Source) -> str:
    """By how much the file indents a block."""
    for node in source.nodes(ast.FunctionDef, ast.For, ast.If):
        outer, inner = line_indent(source, node), line_indent(source, node.body[0])
        if inner.startswith(outer) and len(inner) > len(outer):
            return inner[len(outer) :]
    return " " * 4


def _inside_strings(text: str) -> set[int]:
    """Lines that begin inside a string: to indent them would change it."""
    found: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        name = tokenize.tok_name[token.type]
        if name == "STRING":
            found |= set(range(token.start[0] + 1, token.end[0] + 1))
        elif name == "FSTRING_START":
            opened.append(token.start[0])
        elif name == "FSTRING_END":
            found |= set(range(opened.pop() + 1, token.end[0] + 1))
    return found


def contexts(source: Source, node: ast.AST) -> Iterator[ast.expr]:
    """What the ``with`` statements around a node enter, in the same function; innermost first."""
    function = source.enclosing_function(node)
    above = source.parent(node)
    while above is not None and above is not function:
        if isinstance(above, ast.With):
            yield from (item.context_expr for item in above.items)
        above = source.parent(above)


def called_from(model: ModelCall) -> str:
    """A model's call as people read it: ``self.model(...) of train.py:12``."""
    return f"{ast.unparse(model.call.func)}(...) of {model.source.path}:{model.line}"
