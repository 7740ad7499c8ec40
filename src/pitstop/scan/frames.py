"""Frames: pictures decoded in a function, and what becomes of them there."""

import ast
import re

from pitstop.scan.source import Function, Source

DECODES = re.compile(
    r"(?:^|\.)(?:Image\.open|imread\w*|imfrombytes|read_image|decode_jpeg|imdecode"
    r"|_?(?:read|load)_(?:frame|image|img|png)s?)$"
)
CROPS = re.compile(r"(?:^|_)crop(?:$|_)|crop$|Crop$")
RESIZES = re.compile(
    r"resize|rescale|interpolate|thumbnail|modcrop|transform|remap|undistort|warp", re.IGNORECASE
)


def first_crop(source: Source, function: Function) -> ast.expr | None:
    """The first crop of something decoded in this function, if nothing is resized in it."""
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    if any(RESIZES.search(source.text_of(each.func)) for each in calls):
        return None
    if not any(_decodes(source, each) for each in calls):
        return None
    statements = [each for each in ast.walk(function) if isinstance(each, ast.stmt)]
    frames: set[str] = set()
    for statement in sorted(statements, key=lambda each: each.lineno):
        if isinstance(statement, ast.If | ast.With | ast.Try | ast.FunctionDef):
            continue
        part = statement.iter if isinstance(statement, ast.For) else statement
        if not _holds_frames(source, part, frames):
            continue
        for node in ast.walk(part):
            if _crops(source, node, frames):
                assert isinstance(node, ast.expr)
                return node
        frames |= _receivers(statement)
    return None


def _decodes(source: Source, call: ast.Call) -> bool:
    return bool(DECODES.search(source.name_of(call.func)))


def _holds_frames(source: Source, node: ast.AST, frames: set[str]) -> bool:
    inside = list(ast.walk(node))
    if any(isinstance(each, ast.Name) and each.id in frames for each in inside):
        return True
    return any(isinstance(each, ast.Call) and _decodes(source, each) for each in inside)


def _crops(source: Source, node: ast.AST, frames: set[str]) -> bool:
    match node:
        case ast.Call(func=function, args=[*_, box]) if not _is_fixed(box):
            name = (
                function.attr if isinstance(function, ast.Attribute) else source.name_of(function)
            )
            cuts = bool(CROPS.search(name)) and not _resizes(source, name)
            return cuts and _holds_frames(source, node, frames)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=items)):
            return name in frames and sum(_is_window(each) for each in items) == 2
    return False


def _resizes(source: Source, name: str) -> bool:
    """Whether a function of this file that crops makes the picture smaller first."""
    named = [each for each in source.functions if each.name == name]
    return any(RESIZES.search(source.text_of(each)) for each in named)


def _is_fixed(box: ast.expr) -> bool:
    """Whether a window is written in numbers: such a picture was put together from parts."""
    return not any(isinstance(each, ast.Name) for each in ast.walk(box))


def _is_window(item: ast.expr) -> bool:
    """``top : top + size``, whatever the names."""
    match item:
        case ast.Slice(lower=ast.Name(id=start), upper=ast.BinOp(left=ast.Name(id=end))):
            return start == end
    return False


def _receivers(statement: ast.stmt) -> set[str]:
    """Names that hold, after a statement, what was in it: targets, and lists appended to."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return {name}
        case ast.Assign() | ast.For() | ast.AugAssign():
            stored = [each for each in ast.walk(statement) if isinstance(each, ast.Name)]
            return {each.id for each in stored if isinstance(each.ctx, ast.Store)}
    return set()
