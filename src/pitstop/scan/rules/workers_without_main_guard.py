"""PIT109 workers-without-main-guard."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source


@rule("PIT109", worth="small")
def workers_without_main_guard(source: Source) -> Iterator[Finding]:
    """Loader workers are started by a script without a main guard.

    Where processes are spawned (Windows, macOS, forkserver since Python 3.14) each worker
    imports the script, which starts workers again: Python stops with an error, or it hangs.

    Bad:
        def main():
            for batch in torch.utils.data.DataLoader(clips, num_workers=4):
                model(batch)

        main()

    Good:
        def main():
            for batch in torch.utils.data.DataLoader(clips, num_workers=4):
                model(batch)

        if __name__ == "__main__":
            main()
    """
    loaders = [call for call in source.calls("torch.utils.data.DataLoader") if _has(source, call)]
    if not loaders:
        return
    names = {source.name_of(target) for call in loaders for target in _targets(source, call)}
    starters = {function.name for call in loaders if (function := source.enclosing_function(call))}
    for loop in source.nodes(ast.For):
        direct = any(source.is_inside(call, loop.iter) for call in loaders)
        if not direct and not names & {source.name_of(node) for node in ast.walk(loop.iter)}:
            continue
        function = source.enclosing_function(loop)
        if function is not None:
            starters.add(function.name)
        elif _runs_at_import(source, loop):
            yield source.finding(loop.iter, per="start")
            return
    for call in source.calls(*starters):
        if _runs_at_import(source, call):
            name = source.name_of(call.func)
            message = f"{name} starts loader workers, and is called without a main guard."
            yield source.finding(call, message, per="start")
            return


def _has(source: Source, call: ast.Call) -> bool:
    workers = source.argument(call, "num_workers", 5)
    return workers is not None and source.literal(workers) != 0


def _targets(source: Source, call: ast.Call) -> list[ast.expr]:
    statement = source.statement(call)
    outside = source.enclosing_function(call) is None
    return statement.targets if isinstance(statement, ast.Assign) and outside else []


def _runs_at_import(source: Source, node: ast.AST) -> bool:
    """Whether a statement runs when the file is imported: no function, class or guard around."""
    if source.enclosing_function(node) or source.enclosing_class(node):
        return False
    return source.enclosing(node, ast.If, ast.Lambda) is None
