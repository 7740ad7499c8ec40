"""PIT402 compile-result-dropped."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit, Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import insert, remove_argument
from pitstop.scan.scopes import scope_of
from pitstop.scan.source import Source


@rule("PIT402")
def compile_result_dropped(source: Source) -> Iterator[Finding]:
    """The result of torch.compile is dropped, so nothing is compiled.

    `torch.compile` returns a compiled module and leaves its argument as it was. A module's own
    `compile` works in place and keeps the keys of its `state_dict`, but does nothing for the
    classes of `torch.nn`, such as `Sequential`.

    Bad:
        model = torch.nn.Linear(8, 8)
        torch.compile(model, mode="max-autotune")

    Good:
        model = torch.nn.Linear(8, 8)
        model = torch.compile(model, mode="max-autotune")
    """
    for call in source.calls("torch.compile"):
        if not isinstance(source.parent(call), ast.Expr):
            continue
        if not call.args or isinstance(call.args[0], ast.Starred):
            continue  # a decorator with options, or nothing we could name
        edits = _edits(source, call, call.args[0])
        title = "Keep what is compiled"
        # Compiled code rounds differently: the fix is not a safe one.
        yield source.finding(call, fix=Fix(title, edits) if edits else None)


def _edits(source: Source, call: ast.Call, model: ast.expr) -> tuple[Edit, ...]:
    if not isinstance(model, ast.Name | ast.Attribute):
        return ()
    written = source.text_of(model)
    if source.kind_of(model) == "module" and not _is_torchs(source, model):
        start, end = source.extent(call.func)
        return Edit(start, end, f"{written}.compile"), remove_argument(source, call, model)
    if isinstance(model, ast.Name) and (scope_of(source, call), model.id) not in source.bindings:
        return ()  # assigning here would make a local name of it
    return (insert(source.extent(call)[0], f"{written} = "),)


def _is_torchs(source: Source, model: ast.expr) -> bool:
    """Whether it may be an object of torch's own class, as ``nn.Sequential(...).cuda()`` is."""
    values = source.assigned(model) or []
    calls = [node for value in values for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(source.name_of(each.func).startswith("torch.nn.") for each in calls)
