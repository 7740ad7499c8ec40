"""PIT401 compile-inside-try."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

MISSING = {"AttributeError", "ImportError", "ModuleNotFoundError", "TypeError"}
TRIES = re.compile(r"warm|dry_?run|test|forward|generate|sample|benchmark|infer|run_")


@rule("PIT401")
def compile_inside_try(source: Source) -> Iterator[Finding]:
    """torch.compile stands in a try block that cannot catch its failure.

    Compilation is lazy: nothing is compiled before the first call, which is made outside the
    block, so the fallback never runs. Call the compiled module once inside the block.

    Bad:
        try:
            model = torch.compile(model)
        except Exception:
            print("running without compile")

    Good:
        try:
            model = torch.compile(model)
            model(example)
        except Exception:
            print("running without compile")
    """
    for call in source.calls("torch.compile"):
        block = _try_around(source, call)
        if block is None or isinstance(source.parent(call), ast.FunctionDef):
            continue
        if not _is_tried(source, call, block) and not _falls_back(source):
            message = (
                "Compilation starts at the first call, which is outside this `try`: "
                "its failure is not caught here, and the fallback never runs."
            )
            yield source.finding(call, message, severity="error", changes=("compile",))


def _try_around(source: Source, call: ast.Call) -> ast.Try | None:
    """The try block of the same function whose handlers are meant for the compiler's errors."""
    child, above = source.statement(call), source.parent(source.statement(call))
    while above is not None and not isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(above, ast.Try) and child in above.body and _is_meant(source, above, call):
            return above
        if isinstance(above, ast.stmt):
            child = above
        above = source.parent(above)
    return None


def _is_meant(source: Source, block: ast.Try, call: ast.Call) -> bool:
    """Whether the handlers replace the compiled module, not some other step of a long block."""
    types = [each.type for each in block.handlers]
    names = {source.text_of(each) if each else "Exception" for each in types}
    if (
        not names
        or names <= MISSING
        or any(source.is_inside(call, each) for each in block.handlers)
    ):
        return False
    words = " ".join(source.text_of(each) for each in block.handlers).lower()
    return len(block.body) <= 3 or "compil" in words


def _is_tried(source: Source, call: ast.Call, block: ast.Try) -> bool:
    """Whether something in the block may call what was compiled."""
    statement = source.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    written = [source.text_of(each) for each in targets]
    for other in ast.walk(block):
        if not isinstance(other, ast.Call) or other.lineno <= call.lineno:
            continue
        called = source.text_of(other.func)
        roots = {each.partition(".")[0] for each in written}
        same = called.partition(".")[0] in roots and TRIES.search(called)
        if called in written or called in roots or same:
            return True
    return False


def _falls_back(source: Source) -> bool:
    """Whether Dynamo itself is told to run eagerly what it cannot compile."""
    switches = source.project.sets("torch._dynamo.config.suppress_errors")
    return any(each.value == "True" for each in switches)
