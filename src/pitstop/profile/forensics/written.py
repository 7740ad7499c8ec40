"""Written: the line of a running function that writes a NaN by its name."""

import ast
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType

from pitstop.profile.source.lines import NOWHERE, Place, origin_of


def line_that_writes_nan(frame: FrameType | None) -> Place:
    """The one line of the user's running functions that has a NaN in it; none if there are more."""
    found = {place for code in _running(frame) for place in _nans(code)}
    return found.pop() if len(found) == 1 else NOWHERE


def is_nan(node: ast.AST) -> bool:
    """Whether an expression has ``float("nan")``, ``math.nan``, ``torch.nan`` or the like in it."""
    return any(map(_names_nan, ast.walk(node)))


def _names_nan(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.strip("+-").lower() == "nan"
        case ast.Attribute(value=ast.Name(), attr="nan" | "NaN" | "NAN"):
            return True
    return False


def _running(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        if origin_of(frame.f_code.co_filename) == "user":
            yield frame.f_code
        frame = frame.f_back


def _nans(code: CodeType) -> Iterator[Place]:
    path = code.co_filename
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return
    lines = {number for _, _, number in code.co_lines() if number}
    for node in ast.walk(tree):
        if _names_nan(node) and isinstance(node, ast.expr) and node.lineno in lines:
            yield path, node.lineno, code.co_qualname
