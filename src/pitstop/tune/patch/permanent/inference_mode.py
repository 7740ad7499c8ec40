"""Change `inference-mode` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_before
from pitstop.scan.source import Function, Source
from pitstop.tune.patch.built import model_calls
from pitstop.tune.patch.regions import put_in
from pitstop.tune.patch.sites import Left, Sites, in_file, torch_name
from pitstop.tune.plan import Options

MODES = {"inference": "inference_mode", "no-grad": "no_grad"}
OFF = ("inference_mode", "no_grad")
MOST_CALLERS = 5  # functions between a model's call and the loop over its inputs


def inference_mode(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Decorate the function with the loop that calls the model, or wrap the loop itself."""
    mode = MODES[str(options.get("mode", "inference"))]
    done: set[tuple[str, int]] = set()
    for model in model_calls(sites):
        if isinstance(model, Left):
            yield model
            continue
        source, node = _loop(sites, model.source, model.call, MOST_CALLERS)
        function = source.enclosing_function(node)
        top = function or _outermost(source, node)
        if (source.path, top.lineno) not in done:
            done.add((source.path, top.lineno))
            yield from (
                _decorated(source, function, mode) if function else _wrapped(source, top, mode)
            )


def _loop(sites: Sites, source: Source, node: ast.AST, left: int) -> tuple[Source, ast.AST]:
    """The call in a loop by way of which the model is called; the model's call if there is none."""
    function = source.enclosing_function(node)
    if function is None or not left or source.enclosing_loop(node):
        return source, node
    callers = [
        (each, call)
        for each in sites.sources
        for call in each.nodes(ast.Call)
        if _name(call) == function.name and each.enclosing_function(call) is not function
    ]
    found = [_loop(sites, each, call, left - 1) for each, call in callers]
    return next((one for one in found if one[0].enclosing_loop(one[1])), (source, node))


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _outermost(source: Source, node: ast.AST) -> ast.stmt:
    statement = source.statement(node)
    while isinstance(above := source.parent(statement), ast.stmt):
        if isinstance(above, ast.If) and source.parent(above) is source.tree:
            break  # `if __name__ == ...` stays as it is
        statement = above
    return statement


def _decorated(source: Source, function: Function, mode: str) -> Iterator[Edit | Left]:
    if any(ast.unparse(each).partition("(")[0].endswith(OFF) for each in function.decorator_list):
        return
    if isinstance(function, ast.AsyncFunctionDef):
        yield Left(f"{function.name} is asynchronous: write `with torch.{mode}():` in it")
        return
    torch, imports = torch_name(source)
    yield from imports
    yield from in_file(source, [_above(source, function, f"@{torch}.{mode}()")])


def _above(source: Source, function: Function, text: str) -> Edit:
    """Right above ``def``, below other decorators: those may register what they are given."""
    plain = ast.copy_location(ast.Pass(), function)
    return insert_before(source, function if not function.decorator_list else plain, text)


def _wrapped(source: Source, statement: ast.stmt, mode: str) -> Iterator[Edit | Left]:
    if isinstance(statement, ast.With) and OFF[0] in ast.unparse(statement.items[0].context_expr):
        return
    torch, imports = torch_name(source)
    header = f"with {torch}.{mode}():"
    edits = put_in(source, (statement,), header)
    if edits is None:
        yield Left(f"write `{header}` around {source.path}:{statement.lineno}")
        return
    yield from imports
    yield from edits
