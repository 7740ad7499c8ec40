"""PIT210 accumulator-on-cpu."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

FACTORIES = {"torch.zeros", "torch.empty", "torch.full"}
ADDS = ("add_", "copy_", "sub_", "mul_")


@rule("PIT210")
def accumulator_on_cpu(source: Source) -> Iterator[Finding]:
    """Results are fetched from the GPU one by one and added up on the CPU.

    Each round waits for the GPU, copies through pageable memory, and adds with a few cores what
    the GPU would add at memory speed. Let the accumulator live where the results are, and fetch
    it once. Where it does not fit there, the CPU is the right place.

    Bad:
        total = torch.zeros(3, height, width)
        for tile in tiles:
            total[..., tile.rows, tile.columns] += model(tile.pixels).cpu()

    Good:
        total = torch.zeros(3, height, width, device=device)
        for tile in tiles:
            total[..., tile.rows, tile.columns] += model(tile.pixels)
    """
    for target, value, node in _additions(source):
        if source.enclosing_loop(node) is None or not _is_fetched(source, value):
            continue
        made = source.assigned(target) or []
        if made and all(_is_made_on_cpu(source, each) for each in made):
            yield source.finding(node, confidence="suspected")


def _additions(source: Source) -> Iterator[tuple[ast.expr, ast.expr, ast.AST]]:
    """What is added to, what is added, and where: ``a[i] += b`` and ``a[i].add_(b)``."""
    for add in source.nodes(ast.AugAssign):
        yield _whole(add.target), add.value, add
    for call in source.method_calls(*ADDS):
        if call.args and isinstance(call.func, ast.Attribute):
            yield _whole(call.func.value), call.args[0], call


def _whole(target: ast.expr) -> ast.expr:
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def _is_fetched(source: Source, value: ast.expr) -> bool:
    """Whether a value is, or is made from, a tensor just taken from the GPU."""
    for each in [value, *(source.assigned(value) or [])]:
        for node in ast.walk(each):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                to_cpu = (
                    node.func.attr == "to"
                    and source.literal(source.argument(node, "device", 0)) == "cpu"
                )
                if to_cpu or (node.func.attr == "cpu" and not node.args):
                    return source.kind_of(each) != "ndarray"
    return False


def _is_made_on_cpu(source: Source, value: ast.expr) -> bool:
    if not isinstance(value, ast.Call) or source.name_of(value.func) not in FACTORIES:
        return False
    device = source.argument(value, "device")
    return not source.open_ended(value) and (device is None or source.literal(device) == "cpu")
