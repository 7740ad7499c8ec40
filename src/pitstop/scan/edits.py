"""Edits: small changes of source text that keep formatting and comments."""

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Iterable
from pathlib import PurePosixPath

from pitstop.core.finding import Edit, Fix
from pitstop.scan.settings import read_settings
from pitstop.scan.source import Place, Source

BLANK = re.compile(r"(?:\s|\\\r?\n|#[^\r\n]*)*")  # spacing, line continuations and comments
LINE_BREAK = re.compile(r"\r\n|\n|\r")


def replace(source: Source, place: Place, text: str) -> Edit:
    """Write ``text`` where ``place`` is; parentheses around it stay."""
    return Edit(*source.extent(place), text)


def insert(offset: int, text: str) -> Edit:
    """Write ``text`` before the character at ``offset``."""
    return Edit(offset, offset, text)


def wrap(source: Source, node: ast.AST, before: str, after: str) -> tuple[Edit, Edit]:
    """Put ``before`` and ``after`` around a node: ``float(`` and ``)``."""
    start, end = source.extent(node)
    return insert(start, before), insert(end, after)


def add_argument(source: Source, call: ast.Call, text: str) -> Edit:
    """Add ``text``, mostly ``keyword=value``, as the last argument of a call."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    closing = source.extent(call)[1] - 1
    if not arguments:
        return insert(_opening(source, call) + 1, text)
    last = max(source.extent(each)[1] for each in arguments)
    if last > closing:
        raise ValueError("a bare generator cannot be followed by an argument")
    end, comma = _end_of_argument(source.text, last, closing)
    if comma is None:
        return insert(end, f", {text}")
    return Edit(end, comma + 1, f", {text}{source.text[end:comma]}")


def set_argument(source: Source, call: ast.Call, name: str, value: str) -> Edit:
    """Give ``name=`` the value, whether the call has that keyword already or not."""
    if (known := source.argument(call, name)) is not None:
        return replace(source, known, value)
    return add_argument(source, call, f"{name}={value}")


def remove_argument(source: Source, call: ast.Call, argument: ast.expr | ast.keyword) -> Edit:
    """Drop one argument with its comma; comments of the other arguments stay."""
    # A keyword's own extent starts at its name; that of its value does not.
    items: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    node = next((each for each in call.keywords if each.value is argument), argument)
    items.sort(key=lambda each: source.extent(each)[0])
    position = items.index(node)
    closing = source.extent(call)[1] - 1
    start = _with_parentheses(source, node, call)
    end, comma = _end_of_argument(source.text, source.extent(node)[1], closing)
    if position + 1 < len(items):
        return Edit(start, _with_parentheses(source, items[position + 1], call), "")
    if position == 0:
        return Edit(start, end if comma is None else comma + 1, "")
    before, _ = _end_of_argument(source.text, source.extent(items[position - 1])[1], closing)
    if "#" not in source.text[before:start]:
        return Edit(before, end, "")  # a trailing comma is now the previous argument's
    return _without_its_line(source.text, start, end if comma is None else comma + 1)


def _without_its_line(text: str, start: int, end: int) -> Edit:
    """Drop a last argument below a comment, which stays, with the line if it has one alone."""
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start))
    line_end = LINE_BREAK.search(text, end)
    rest = text[end : line_end.start()] if line_end else ")"
    alone = line_start >= 0 and not text[line_start:start].strip() and not rest.strip()
    start = line_start if alone else start
    if alone and text[start - 1 : start + 1] == "\r\n":
        start -= 1
    return Edit(start, end, "")


def _opening(source: Source, call: ast.Call) -> int:
    """Offset of the parenthesis that opens a call's arguments."""
    offset = source.extent(call.func)[1]
    while True:
        offset = _skip_blank(source.text, offset)
        if source.text[offset] == "(":
            return offset
        offset += 1  # a parenthesis that closes the function's own


def _skip_blank(text: str, offset: int) -> int:
    match = BLANK.match(text, offset)
    return match.end() if match else offset


def _end_of_argument(text: str, offset: int, closing: int) -> tuple[int, int | None]:
    """Where an argument ends, its own parentheses included, and its comma, if it has one."""
    end = offset
    while True:
        offset = _skip_blank(text, offset)
        if offset >= closing:
            return end, None
        if text[offset] == ",":
            return end, offset
        offset = end = offset + 1


def _with_parentheses(source: Source, node: ast.AST, call: ast.Call) -> int:
    """Where an argument starts, with the parentheses around it."""
    start = source.extent(node)[0]
    limit = _opening(source, call) + 1
    text = source.text
    while True:
        before = start - 1
        while before >= limit and text[before].isspace():
            before -= 1
        if before < limit or text[before] != "(":
            return start
        start = before


def line_indent(source: Source, statement: ast.stmt) -> str:
    """The spacing before a statement; empty when something else stands on its line."""
    start = source.extent(statement)[0]
    line_start = source.lines.starts[source.lines.position(start)[0] - 1]
    before = source.text[line_start:start]
    return before if not before.strip() else ""


def newline(source: Source) -> str:
    """The line ending that the file uses."""
    match = LINE_BREAK.search(source.text)
    return match[0] if match else "\n"


def insert_before(source: Source, statement: ast.stmt, text: str) -> Edit:
    """Write a statement on a line of its own before another one, decorators counted in."""
    first = min([statement, *getattr(statement, "decorator_list", [])], key=lambda n: n.lineno)
    start = source.extent(first)[0] - (1 if first is not statement else 0)
    indent = line_indent(source, statement)
    end_of_line = newline(source)
    body = end_of_line.join([*(text.splitlines()), ""]).replace(end_of_line, end_of_line + indent)
    return insert(start, body)


def insert_after(source: Source, statement: ast.stmt, text: str) -> Edit:
    """Write a statement on a line of its own after another one and the comment behind it."""
    end = source.extent(statement)[1]
    match = LINE_BREAK.search(source.text, end)
    offset = match.start() if match else len(source.text)
    rest = source.text[end:offset].strip()
    if rest and not rest.startswith("#"):
        raise ValueError(f"line {statement.end_lineno} holds another statement")
    start = newline(source) + line_indent(source, statement)
    return insert(offset, "".join(start + line for line in text.splitlines()))


def remove_statement(source: Source, statement: ast.stmt) -> Edit:
    """Drop a whole statement with its line; ``pass`` stays where a block would be empty."""
    start, end = source.extent(statement)
    if _is_alone(source, statement):
        return Edit(start, end, "pass")
    line_start = source.lines.starts[statement.lineno - 1]
    match = LINE_BREAK.search(source.text, end)
    line_end = match.end() if match else len(source.text)
    before, after = source.text[line_start:start], source.text[end:line_end].strip()
    if before.strip() or (after and not after.startswith("#")):
        return Edit(start, end, "pass")  # shares its line with something else
    return Edit(line_start, line_end, "")


def _is_alone(source: Source, statement: ast.stmt) -> bool:
    above = source.parent(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(above, field, None)
        if isinstance(block, list) and statement in block:
            return len(block) == 1 and field == "body" and not isinstance(above, ast.Module)
    return False


def insert_import(source: Source, statement: str) -> Edit | None:
    """Add ``import x`` or ``from x import y`` below the imports; ``None`` if it is there."""
    wanted = ast.parse(statement).body[0]
    assert isinstance(wanted, ast.Import | ast.ImportFrom)
    last: ast.stmt | None = None
    for each in source.tree.body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            if _covers(each, wanted):
                return None
            last = each
        elif last is None and _is_docstring(each, source):
            last = each
        elif last is not None and not isinstance(last, ast.Expr):
            break
    if last is not None:
        return insert_after(source, last, statement)
    end_of_line = newline(source)
    return insert(_after_header(source.text), statement + end_of_line)


def _covers(present: ast.stmt, wanted: ast.Import | ast.ImportFrom) -> bool:
    if type(present) is not type(wanted):
        return False
    assert isinstance(present, ast.Import | ast.ImportFrom)
    if getattr(present, "module", None) != getattr(wanted, "module", None):
        return False
    names = {(alias.name, alias.asname) for alias in present.names}
    return all((alias.name, alias.asname) in names for alias in wanted.names)


def _is_docstring(node: ast.stmt, source: Source) -> bool:
    return (
        node is source.tree.body[0]
        and isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _after_header(text: str) -> int:
    """Past the lines that must come first: ``#!`` and the encoding, with comments around them."""
    offset = 0
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            break
        offset += len(line)
    return offset


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits, which may touch but not overlap."""
    pieces = []
    offset = 0
    for edit in sorted(dict.fromkeys(edits), key=lambda each: (each.start, each.end)):
        if edit.start < offset or edit.end < edit.start or edit.end > len(text):
            raise ValueError(f"edit at {edit.start} overlaps another or lies outside the text")
        pieces += [text[offset : edit.start], edit.new]
        offset = edit.end
    return "".join([*pieces, text[offset:]])


def apply_fix(text: str, fix: Fix, path: str = "") -> str:
    """The text after a fix; raises ``SyntaxError`` or ``ValueError`` rather than break a file."""
    changed = apply_edits(text, [edit for edit in fix.edits if edit.path in ("", path)])
    check_syntax(changed, path)
    return changed


def check_syntax(text: str, path: str) -> None:
    """Raise ``SyntaxError`` or ``ValueError`` unless the text is valid for the path's language."""
    suffix = PurePosixPath(path).suffix
    if suffix == ".toml":
        tomllib.loads(text)
    elif suffix == ".json" and "//" not in text:
        json.loads(text)
    elif suffix in (".yaml", ".yml", ".json"):
        read_settings(text, path)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes that were there before
            ast.parse(text)
