"""PIT503 inference-with-grad."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import insert_after, insert_before
from pitstop.scan.gradients import (
    asks_for_gradients,
    evaluated_network,
    is_off,
    is_off_in_class,
    is_unclear,
)
from pitstop.scan.hot import place_of
from pitstop.scan.source import Function, Source


@rule("PIT503")
def inference_with_grad(source: Source) -> Iterator[Finding]:
    """A network in evaluation mode runs with gradients on.

    `eval` changes dropout and batch norm, not autograd: every activation is kept for a backward
    pass that never comes. `torch.no_grad` lets each one go as soon as the next layer has read it.
    Where the parameters are frozen, nothing is kept and nothing is lost.

    Bad:
        def validate(model, val_loader):
            model.eval()
            return [model(batch).argmax(1) for batch in val_loader]

    Good:
        @torch.no_grad()
        def validate(model, val_loader):
            model.eval()
            return [model(batch).argmax(1) for batch in val_loader]
    """
    if not source.method_calls("eval") or is_unclear(source):
        return
    seen: set[ast.AST | None] = set()
    for evaluated in source.method_calls("eval"):
        function = source.enclosing_function(evaluated)
        network = evaluated_network(source, evaluated)
        if function in seen or evaluated.args or network is None:
            continue
        if _is_a_part(function):
            continue
        call = _first_run(source, source.name_of(network), evaluated, function)
        if call is None or is_off(source, function) or is_off_in_class(source, call):
            continue
        if asks_for_gradients(source, function):
            continue
        seen.add(function)
        message = f"`{ast.unparse(network)}` is in evaluation mode, yet runs with gradients on."
        fix = _decorated(source, function) if function else _switched(source, evaluated)
        yield source.finding(call, message, fix, changes=("inference-mode",))


def _is_a_part(function: Function | None) -> bool:
    """Whether it is a ``forward``: a larger network may learn through the frozen one."""
    return function is not None and function.name in ("forward", "__call__")


def _first_run(
    source: Source, network: str, evaluated: ast.Call, function: Function | None
) -> ast.Call | None:
    """The first call of the network after ``eval`` in a function that never trains."""
    within = function or source.tree
    trains = source.method_calls("backward", "zero_grad", "manual_backward", "export")
    if any(source.is_inside(each, within) for each in trains):
        return None
    found = [
        call
        for call in source.calls(network, f"{network}.inference", f"{network}.forward")
        if source.enclosing_function(call) is function and call.lineno > evaluated.lineno
    ]
    if any(place_of(source, call).evaluation for call in found):
        return None  # whoever turns gradients off for the others has left out a trial run
    return min(found, key=lambda each: each.lineno, default=None)


def _switched(source: Source, evaluated: ast.Call) -> Fix | None:
    """For a script without functions: off from here on, also for whoever imports it."""
    if source.aliases.get("torch") != "torch" or source.enclosing_class(evaluated):
        return None
    try:
        edit = insert_after(source, source.statement(evaluated), "torch.set_grad_enabled(False)")
    except ValueError:  # something else stands on the line
        return None
    return Fix("Turn gradients off", (edit,))


def _decorated(source: Source, function: Function) -> Fix | None:
    if function.decorator_list or source.aliases.get("torch") != "torch":
        return None
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        return None
    return Fix("Turn gradients off", (insert_before(source, function, "@torch.no_grad()"),))
