"""Loaders: what becomes of a DataLoader, and what has come out of one."""

import ast
import re
from collections.abc import Iterator

from pitstop.scan.loops import is_loader
from pitstop.scan.scopes import Binding, reaching
from pitstop.scan.source import Source

TRAINS = re.compile(r"(?:^|[._])(?:fit|train|run_training)(?:_|$)|trainer$", re.IGNORECASE)
ONCE = re.compile(r"test|predict|infer|eval|preview|demo", re.IGNORECASE)
NO_ITERATION = ("len", "print", "isinstance", "id", "type", "str")
RUNS_A_MODEL = ("backward", "cuda", "fit", "eval", "zero_grad", "prepare")
BATCH = re.compile(r"(?:^|_)(?:batch|data|samples?|inputs?|batch_data)$")  # of a parameter
ON_A_GPU = re.compile(r"\.cuda\(|\bdevice\b|cuda:?\d*[\"']")
MOVES = ("to", "cuda", "cpu")
DEPTH = 5  # names between a value and the loop over the loader


def is_iterated(source: Source, loader: ast.Call, again: bool = False) -> bool:
    """Whether a new loader is, by all signs, iterated; ``again``: more than once."""
    statement = source.statement(loader)
    if isinstance(statement, ast.Return):
        return _is_for_training(source, statement)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name | ast.Attribute) or tries_the_dataset(source, loader):
        return False
    if not again and ONCE.search(source.name_of(target)):
        return False
    return any(_iterates(source, loader, use, again) for use in _uses(source, target))


def _uses(source: Source, target: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """Where the name is read: in its function, or for ``self.x`` anywhere in the file."""
    name, scope = source.name_of(target), source.enclosing_function(target)
    if isinstance(target, ast.Attribute):
        found = [each for each in source.nodes(ast.Attribute) if source.name_of(each) == name]
        yield from (each for each in found if each is not target)
    else:
        names = [each for each in source.nodes(ast.Name) if each.id == name and each is not target]
        yield from (each for each in names if source.enclosing_function(each) is scope)


def _iterates(source: Source, loader: ast.Call, use: ast.expr, again: bool) -> bool:
    statement, above = source.statement(use), source.parent(use)
    if isinstance(statement, ast.For) and source.is_inside(use, statement.iter):
        function = source.enclosing_function(use)
        kept = isinstance(use, ast.Attribute)  # a local one is new in every call
        callers = source.method_calls(function.name) if function and kept else []
        return not again or any(_repeats(source, loader, each) for each in (statement, *callers))
    if isinstance(statement, ast.Return):
        return _is_for_training(source, statement)
    if isinstance(above, ast.keyword):
        above = source.parent(above)
    if not isinstance(above, ast.Call):
        return False
    called = source.name_of(above.func)
    looped = _repeats(source, loader, above) if again else source.enclosing_loop(above) is not None
    return (looped and called not in NO_ITERATION) or bool(TRAINS.search(called))


def _repeats(source: Source, loader: ast.Call, node: ast.AST) -> bool:
    """Whether a loop runs this more than once with one loader, which is not built in it."""
    loop = source.enclosing_loop(node)
    return loop is not None and not source.is_inside(loader, loop)


def _is_for_training(source: Source, statement: ast.Return) -> bool:
    """Whether a function that gives a loader away gives it, by all signs, to a training."""
    function = source.enclosing_function(statement)
    if function is None or ONCE.search(function.name):
        return False
    trains = source.project.calls_method("backward", "manual_backward", "fit")
    name = source.qualified_name(function)
    return trains and source.project.callers_train(source.path, source.module, name)


def tries_the_dataset(source: Source, loader: ast.Call) -> bool:
    """Whether a file of datasets only shows, at its end, that they can be loaded."""
    block = source.enclosing(loader, ast.If)
    guarded = block is not None and "__main__" in source.text_of(block.test)
    function = source.enclosing_function(loader)
    named = function is not None and function.name.startswith(("main", "test", "debug", "demo"))
    own = any(source.is_a(each, "torch.utils.data.Dataset") for each in source.nodes(ast.ClassDef))
    return own and (guarded or named) and not source.method_calls(*RUNS_A_MODEL)


def samples_are_on_a_gpu(source: Source, loader: ast.Call) -> bool:
    """Whether this file makes samples or batches there: they can be neither pinned nor forked."""
    collate = source.argument(loader, "collate_fn", 6)
    names = {"__getitem__"}
    if isinstance(collate, ast.Name | ast.Attribute):
        names.add(collate.id if isinstance(collate, ast.Name) else collate.attr)
    makers = [each for each in source.functions if each.name in names]
    return any(ON_A_GPU.search(source.text_of(each)) for each in makers)


def from_batch(source: Source, node: ast.AST, depth: int = DEPTH) -> bool:
    """Whether a value came out of a loader and was not moved since: its batch, or a part of it."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        if isinstance(node, ast.Call):
            if source.name_of(node.func) == "next":
                return True
            node = node.func
        elif isinstance(node, ast.Attribute) and node.attr in MOVES:
            return False
        else:
            node = node.value
    if not isinstance(node, ast.Name) or depth == 0:
        return False
    return any(_gives_batch(source, node, each, depth) for each in reaching(source, node))


def _gives_batch(source: Source, name: ast.Name, binding: Binding, depth: int) -> bool:
    if binding.how == "parameter":
        function = source.enclosing_function(name)
        inner = function is not None and function.name in ("forward", "__call__")
        return bool(BATCH.search(name.id)) and not inner
    value = binding.value
    if value is None:
        return False
    if binding.how == "loop" and any(is_loader(source, each) for each in ast.walk(value)):
        return True
    return from_batch(source, value, depth - 1)
