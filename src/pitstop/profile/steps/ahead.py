"""Ahead: whether the script is still going to train, as far as its source can tell.

Batches and model calls may prepare a training (latents are cached, a validation comes first) or be
all there is (inference). What tells them apart is the code that comes after the statement that runs
now, in each function on the stack, and what that code calls, by name. Nothing is executed.
"""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.source.lines import line_of, origin_of

TRAINING = re.compile(
    r"\.backward\(|\boptim\.|\boptimizers?\.step\(|\.fit\(|trainer\.train\(", re.IGNORECASE
)
CALLED = re.compile(r"(?:(\w+)\.)?(\w+)\(")  # a name, and what it is looked up in
BUILT_IN = frozenset(dir(builtins))  # whatever of the user's has the same name is not meant
LEAVING = re.compile(r"(?:return|raise)\b|(?:sys\.)?(?:exit|quit)\(")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Body = list[ast.stmt]


def will_train(frame: FrameType | None) -> bool:
    """Whether the code ahead of this frame, in it or in its callers, trains."""
    trees: dict[str, ast.Module] = {}
    texts: list[str] = []
    called: set[str] = set()
    innermost = True
    while frame is not None:
        path = frame.f_code.co_filename
        if origin_of(path) == "user":
            tree = trees.setdefault(path, _parsed(path))
            statement, after, _ = _following(tree.body, line_of(frame))
            if innermost and TRAINING.search(statement):
                return True  # a library trains, and has not told of its optimizer yet
            innermost = False
            here = list(map(ast.unparse, after))
            texts += here
            called.update(_called("\n".join(here), frame))
        frame = frame.f_back
    return _leads_to_training(texts, called)


def _leads_to_training(texts: list[str], called: set[str]) -> bool:
    """Whether one of these statements trains, or a function of the user's that they call does."""
    if any(map(TRAINING.search, texts)):
        return True
    names = called - BUILT_IN
    known = _functions() if names else {}
    while names:
        for text in known.pop(names.pop(), []):
            if TRAINING.search(text):
                return True
            names |= _called(text) - BUILT_IN
    return False


def _called(text: str, frame: FrameType | None = None) -> set[str]:
    """The names of what is called, without methods of a library that a variable's value has.

    ``bar.update(1)`` of a progress bar is no ``update`` of the user's.
    """
    variables = _variables(frame) if frame else {}
    pairs = set(CALLED.findall(text))
    return {name for holder, name in pairs if not _is_librarys(variables.get(holder), name)}


def _variables(frame: FrameType) -> dict[str, object]:
    """What the names in a frame stand for by now; a local one may have no value yet."""
    own = frame.f_code.co_varnames
    known = {name: value for name, value in frame.f_globals.items() if name not in own}
    return known | frame.f_locals


def _is_librarys(value: object, name: str) -> bool:
    """Whether this attribute of a value belongs to a class, or a module, that is not the user's."""
    places: tuple[Any, ...] = (value,) if isinstance(value, ModuleType) else type(value).__mro__
    holder = next((each for each in places if name in vars(each)), None)  # asks nobody to make it
    if holder is None:
        return False
    module = holder.__name__ if isinstance(holder, ModuleType) else holder.__module__
    path = getattr(sys.modules.get(module), "__file__", None)
    return path is not None and origin_of(path) != "user"


def _following(body: Body, line: int) -> tuple[str, Body, bool]:
    """The innermost statement at a line, what comes after it, and whether the function ends there.

    Of a branch the other one does not come after it, and neither does what stands behind a return.
    """
    for place, each in enumerate(body):
        if not each.lineno <= line <= (each.end_lineno or each.lineno):
            continue
        blocks = [
            found
            for block in _blocks(each)
            if (found := _following(block, line)) != ("", [], False)
        ]
        statement, after, ends = blocks[0] if blocks else (_text(each), [], False)
        if ends or isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            return statement, after, True
        for later in body[place + 1 :]:
            after = [*after, later]
            if LEAVING.match(ast.unparse(later)):
                return statement, after, True
        return statement, after, False
    return "", [], False


def _blocks(statement: ast.stmt) -> Iterator[Body]:
    """The statements inside a statement, block by block."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block
    for name in ("handlers", "cases"):
        for each in getattr(statement, name, ()):
            yield each.body


def _text(statement: ast.stmt) -> str:
    """A simple statement; of one with blocks only its head runs at its line."""
    return "" if list(_blocks(statement)) else ast.unparse(statement)


def _functions() -> dict[str, list[str]]:
    """The source of every function of the user's modules, by name; of a class, what builds it."""
    found: dict[str, list[str]] = {}
    modules = [each for each in list(sys.modules.values()) if isinstance(each, ModuleType)]
    paths = {vars(module).get("__file__") or "<none>" for module in modules}
    for path in paths:
        if origin_of(path) == "user" and path.endswith(".py"):
            for node in ast.walk(_parsed(path)):
                if isinstance(node, FUNCTIONS):
                    found.setdefault(node.name, []).append(_whole(node))
                elif isinstance(node, ast.ClassDef):
                    builders = [each for each in node.body if isinstance(each, FUNCTIONS)]
                    inits = [each for each in builders if each.name == "__init__"]
                    found.setdefault(node.name, []).extend(map(_whole, inits))
    return found


def _whole(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The body of a function, as text."""
    return "\n".join(map(ast.unparse, function.body))


def _parsed(path: str) -> ast.Module:
    """The syntax tree of a file; empty where it cannot be read."""
    empty = ast.Module([], [])
    parsed: ast.Module = attempt(lambda: ast.parse(Path(path).read_bytes()), otherwise=empty)
    return parsed
