"""PIT112 missing-artefact-replaced-silently."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

EXISTS = {"exists", "is_file", "isfile"}
MISSING = {"FileNotFoundError", "OSError", "IOError", "Exception", "KeyError"}
MADE_UP = {"zeros", "zeros_like", "randn", "rand", "empty"}


@rule("PIT112")
def missing_artefact_replaced_silently(source: Source) -> Iterator[Finding]:
    """A file that is missing is replaced by made-up numbers, and training goes on.

    A mistyped folder or a half-finished download then looks like a model that does not learn.
    Raise, or leave the sample out when the dataset is listed, and say how many are missing.

    Bad:
        class Clips(torch.utils.data.Dataset):
            def __getitem__(self, index):
                if not self.paths[index].exists():
                    return torch.zeros(3, 256, 256)
                return torch.load(self.paths[index])

    Good:
        class Clips(torch.utils.data.Dataset):
            def __getitem__(self, index):
                return torch.load(self.paths[index])
    """
    for block in source.nodes(ast.If):
        missing = _branch_without_file(source, block)
        yield from _made_up(source, missing)
    for handler in source.nodes(ast.ExceptHandler):
        if handler.type is None or _names(source, handler.type) & MISSING:
            yield from _made_up(source, handler.body)


def _names(source: Source, node: ast.expr) -> set[str]:
    return {source.name_of(each) for each in ast.walk(node)}


def _branch_without_file(source: Source, block: ast.If) -> list[ast.stmt]:
    match block.test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call):
            branch = block.body
        case ast.Call() as call:
            branch = block.orelse
        case _:
            return []
    name = call.func.attr if isinstance(call.func, ast.Attribute) else source.name_of(call.func)
    return branch if name in EXISTS else []


def _made_up(source: Source, body: list[ast.stmt]) -> Iterator[Finding]:
    """Numbers that a branch returns or assigns in place of a sample, if it does not raise."""
    if any(isinstance(each, ast.Raise | ast.Continue | ast.If) for each in body):
        return
    for statement in body:
        value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
        if not isinstance(value, ast.Call):
            continue
        library, _, function = source.name_of(value.func).rpartition(".")
        made_up = library in ("torch", "numpy") and function in MADE_UP
        if any(isinstance(each, ast.Constant) and each.value == 0 for each in _sizes(value)):
            continue  # nothing is made up: no boxes, no labels
        if made_up and _is_in_dataset(source, statement):
            yield source.finding(statement, severity="error")


def _sizes(made: ast.Call) -> list[ast.expr]:
    """The shape that is asked for: of ``zeros(0, 5)`` and of ``zeros((0, 5))``."""
    first = made.args[0] if made.args else None
    return list(first.elts) if isinstance(first, ast.Tuple | ast.List) else list(made.args)


def _is_in_dataset(source: Source, node: ast.AST) -> bool:
    owner = source.enclosing_class(node)
    return owner is not None and source.is_a(owner, "torch.utils.data.Dataset")
