"""PIT606 optimizer-not-fused."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.fusing import FUSABLE
from pitstop.core.rule import rule
from pitstop.scan.call_graph import is_test
from pitstop.scan.edits import set_argument
from pitstop.scan.source import Source

DECIDED = {"fused", "foreach", "differentiable", "capturable"}


@rule("PIT606", worth="small")
def optimizer_not_fused(source: Source) -> Iterator[Finding]:
    """The optimizer updates in many small kernels where one would do.

    By default each step launches a chain of kernels over lists of parameters, and reads and
    writes them several times over. `fused=True` does it in one pass, on a GPU and on a CPU. How
    much that saves depends on the share of the step that the optimizer takes. Rounding differs
    in the last digit.

    Bad:
        model = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    Good:
        model = torch.nn.Linear(8, 8).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    """
    if is_test(source.path) or "fused=True" in source.text:
        return  # whoever fuses one optimizer of a file has thought of the others
    found: list[ast.Call] = []
    for call in source.calls(*(f"torch.optim.{name}" for name in FUSABLE)):
        name = source.name_of(call.func).rpartition(".")[2]
        decided = any(name in DECIDED for name, _ in source.keywords(call))
        if decided or source.open_ended(call) or _is_small(source, call):
            continue
        if not source.project.runs_with_torch(*FUSABLE[name]):
            continue
        if _is_other_arm(source, call, found):
            continue
        found.append(call)
        fix = Fix("Fuse it", (set_argument(source, call, "fused", "True"),))
        yield source.finding(
            call,
            f"`{name}` updates in many small kernels; `fused=True` makes it one.",
            fix,
            confidence="suspected",
            changes=("fused-optimizer",),
        )


def _is_other_arm(source: Source, call: ast.Call, found: list[ast.Call]) -> bool:
    """Whether another arm of the same ``if`` makes the optimizer as well: one of them runs."""
    block = source.enclosing(call, ast.If)
    around = block
    while isinstance(block, ast.If):
        around, block = block, source.enclosing(block, ast.If)
    return around is not None and any(source.is_inside(each, around) for each in found)


def _is_small(source: Source, call: ast.Call) -> bool:
    """Whether it optimizes a few tensors that are named one by one, or nothing we can see."""
    parameters = source.argument(call, "params", 0)
    if parameters is None or "embedding" in source.text_of(parameters):
        return True
    named = ast.List | ast.Name | ast.Attribute | ast.Subscript
    groups = parameters.elts if isinstance(parameters, ast.List) else []
    values = [
        value
        for each in groups
        for value in (each.values[:1] if isinstance(each, ast.Dict) else [each])
    ]
    return bool(values) and all(isinstance(value, named) for value in values)
