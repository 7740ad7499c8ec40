"""PIT208 python-loop-over-tensor."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.hot import place_of
from pitstop.scan.rare import is_rare
from pitstop.scan.rounds import is_collected
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source

COUNTS = ("torch.linspace", "torch.arange", "torch.randperm")  # a few numbers of the CPU
MOVES = ("to", "cuda", "cpu", "clone", "detach")


@rule("PIT208")
def python_loop_over_tensor(source: Source) -> Iterator[Finding]:
    """Python walks over the rows of a tensor, with launches of its own for each.

    The GPU gets many small kernels where one batched call would do. Steps that need the result
    of the one before, as in denoising or a recurrent network, cannot be batched and are left
    alone. A loop that only reads numbers is `sync-in-hot-loop`.

    Bad:
        class Head(torch.nn.Module):
            def forward(self, clips: torch.Tensor):
                return torch.stack([self.layer(clip) for clip in clips])

    Good:
        class Head(torch.nn.Module):
            def forward(self, clips: torch.Tensor):
                return self.layer(clips)
    """
    for loop in source.nodes(ast.For):
        if _rows(source, loop.iter, loop.target) and is_collected(source, loop):
            yield from _found(source, loop)
    for listing in source.nodes(ast.ListComp, ast.GeneratorExp):
        first = listing.generators[0]
        rows = _works(listing.elt) and _rows(source, first.iter, first.target)
        if rows or _looks_up(listing.elt):
            yield from _found(source, listing)


def _found(source: Source, node: ast.For | ast.ListComp | ast.GeneratorExp) -> Iterator[Finding]:
    hot = source.hot(node)
    often = hot is not None and hot.kind != "sample" and not hot.guarded
    if hot is not None and often and not is_rare(source, node, hot):
        message = f"Python walks over the rows of a tensor ({hot.reason})."
        yield source.finding(node, message, confidence="suspected")
    elif hot is None and isinstance(node, ast.For) and place_of(source, node).evaluation:
        found = reaching(source, node.iter) if isinstance(node.iter, ast.Name) else []
        if found and all(each.annotation for each in found):
            yield source.finding(node, confidence="suspected")


def _works(item: ast.expr) -> bool:
    """Whether something is computed of each row, beyond moving it."""
    calls = [each.func for each in ast.walk(item) if isinstance(each, ast.Call)]
    return any(not isinstance(each, ast.Attribute) or each.attr not in MOVES for each in calls)


def _rows(source: Source, iterable: ast.expr, target: ast.expr) -> bool:
    if isinstance(iterable, ast.Call) and source.name_of(iterable.func) in COUNTS:
        return False
    function = source.enclosing_function(iterable)
    if function and f"isinstance({source.text_of(iterable)}," in source.text_of(function):
        return False  # it may also be a tuple of tensors
    return isinstance(target, ast.Name) and source.kind_of(iterable) == "tensor"


def _looks_up(item: ast.expr) -> bool:
    """``(schedule == t).nonzero()``: only tensors are searched like that."""
    match item:
        case ast.Call(func=ast.Attribute(value=ast.Compare(), attr="nonzero")):
            return True
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            return _looks_up(inner)
    return False
