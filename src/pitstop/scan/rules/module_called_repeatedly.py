"""PIT601 module-called-repeatedly, where a loop asks one network again and again."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import names_in
from pitstop.scan.frames import DECODES
from pitstop.scan.inference import TRAINS, network_of
from pitstop.scan.rounds import carries
from pitstop.scan.source import Source


@rule("PIT601")
def module_called_repeatedly(source: Source) -> Iterator[Finding]:
    """The network runs once for each of several inputs that are all there.

    Rounds that differ by a number, such as the moment of a frame between two others, go through
    as one batch: expand what stays the same, and stack what differs. That wins where one input
    leaves the GPU with time to spare, and needs the memory of all of them. The numbers stay the
    same, unless batch norm in training mode takes its statistics over the whole batch. The part
    `batched` makes one call of several, and `reused` keeps the features of the frame before.

    Bad:
        @torch.no_grad()
        def between(first, second, n):
            result = []
            for i in range(n):
                result.append(model(first, second, (i + 1) / (n + 1)))
            return result

    Good:
        @torch.no_grad()
        def between(first, second, n):
            moments = torch.arange(1, n + 1, device=first.device) / (n + 1)
            pairs = (each.expand(n, -1, -1, -1) for each in (first, second))
            return list(model(*pairs, moments.view(-1, 1, 1, 1)))
    """
    if source.method_calls(*TRAINS) or not source.method_calls("append"):
        return
    for loop in source.nodes(ast.For):
        counted = isinstance(loop.iter, ast.Call) and source.name_of(loop.iter.func) == "range"
        if not counted or not isinstance(loop.target, ast.Name) or carries(list(ast.walk(loop))):
            continue
        for call in _collected(source, loop):
            network = source.text_of(call.func)
            if network_of(source, call.func) and _differs_by_a_number(call, loop.target.id):
                message = f"`{network}` runs once for each `{loop.target.id}`; a batch would do."
                yield source.finding(call, message, confidence="suspected")


def _collected(source: Source, loop: ast.For) -> Iterator[ast.Call]:
    """Calls whose result a round of the loop appends to a list at once."""
    inside = [each for each in ast.walk(loop) if isinstance(each, ast.Call)]
    if any(DECODES.search(source.name_of(each.func)) for each in inside):
        return
    for statement in loop.body:
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="append"), args=[ast.Call() as made])
            ):
                yield made


def _differs_by_a_number(call: ast.Call, counter: str) -> bool:
    """Whether the counter is in numbers only, and what else is passed stays the same."""
    given = [*call.args, *(each.value for each in call.keywords)]
    moving = [each for each in given if counter in names_in(each)]
    still = [each for each in given if counter not in names_in(each)]
    plain = (
        ast.BinOp,
        ast.Name,
        ast.Constant,
        ast.operator,
        ast.expr_context,
        ast.UnaryOp,
        ast.unaryop,
    )
    numbers = all(isinstance(node, plain) for each in moving for node in ast.walk(each))
    return bool(moving) and bool(still) and numbers
