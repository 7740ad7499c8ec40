"""PIT203 blocking-copy."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument
from pitstop.scan.hot import Hot
from pitstop.scan.loaders import from_batch
from pitstop.scan.source import Source
from pitstop.scan.tensor_reads import is_tensor
from pitstop.scan.uploads import DEVICE

OFFLOAD = re.compile(r"offload", re.IGNORECASE)
INDEXES = re.compile(r"ind(?:ex|ices|exes|s)?$|idxs?$|perm$", re.IGNORECASE)
# These put every batch on its device themselves: another `.to(device)` does nothing.
MOVERS = ("pytorch_lightning", "lightning", "accelerate")


@rule("PIT203", worth="small")
def blocking_copy(source: Source) -> Iterator[Finding]:
    """A batch is copied to the GPU while Python waits.

    From pinned memory, with `non_blocking=True`, the copy runs beside the kernels already
    queued; kernels queued later still wait for it, so the results are the same. Towards the
    CPU it needs an event before the numbers may be read. From pageable memory nothing is gained.

    Bad:
        for batch in train_loader:
            model(batch["clip"].cuda()).mean().backward()

    Good:
        for batch in train_loader:
            model(batch["clip"].cuda(non_blocking=True)).mean().backward()
    """
    copies: dict[ast.stmt, list[ast.Call]] = {}
    for call in source.method_calls("to", "cuda"):
        hot = source.hot(call)
        if hot is None or hot.kind == "sample" or not isinstance(call.func, ast.Attribute):
            continue
        if source.open_ended(call) or source.argument(call, "non_blocking", 2) is not None:
            continue
        device, value = _device(source, call), call.func.value
        if OFFLOAD.search(device) and not hot.guarded and is_tensor(source, value):
            message = f"A tensor is copied off the GPU while Python waits ({hot.reason})."
            yield source.finding(call, message, severity="note", confidence="suspected")
        elif DEVICE.search(device) and _is_on_host(source, value, hot):
            copies.setdefault(source.statement(call), []).append(call)
    for calls in copies.values():
        yield _copied(source, calls)


def _copied(source: Source, calls: list[ast.Call]) -> Finding:
    """One finding for all copies of a statement."""
    hot = source.hot(calls[0])
    message = f"A batch is copied to the GPU while Python waits ({hot.reason if hot else ''})."
    fix = None
    func = calls[0].func
    own = isinstance(func, ast.Attribute) and source.project.defines_method(func.attr)
    if not own and (not isinstance(func, ast.Attribute) or from_batch(source, func.value)):
        edits = tuple(add_argument(source, each, "non_blocking=True") for each in calls)
        fix = Fix("Copy without waiting", edits)
    changes = ("non-blocking",)
    # A note: from pageable memory nothing is gained, and where it is pinned is not known here.
    return source.finding(
        calls[0], message, fix, severity="note", confidence="suspected", changes=changes
    )


def _device(source: Source, call: ast.Call) -> str:
    """The last part of the device's name; "gpu" for ``cuda()``; empty for a dtype."""
    where = source.argument(call, "device", 0)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return "gpu"
    if isinstance(where, ast.Constant):
        return "gpu" if str(where.value).startswith("cuda") else ""
    if where is not None and source.kind_of(where) == "device":
        return "device"
    return source.name_of(where).rpartition(".")[2] if where is not None else ""


def _is_on_host(source: Source, value: ast.expr, hot: Hot) -> bool:
    """Whether it is a batch as it came from the loader, or rows picked from data in RAM."""
    if any(name.startswith(MOVERS) for name in source.aliases.values()):
        return False
    if from_batch(source, value):
        return hot.kind != "validation" or hot.depth > 0
    match value:
        case ast.Subscript(value=ast.Attribute(), slice=ast.Name(id=index)):
            return hot.reason.startswith("loop") and bool(INDEXES.search(index))
    return False
