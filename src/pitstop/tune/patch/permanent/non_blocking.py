"""Change `non-blocking` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.evidence import Operation
from pitstop.core.finding import Edit
from pitstop.diagnose.facts.operations import by_line, short, tensors
from pitstop.diagnose.facts.waits import COPIES
from pitstop.scan.edits import add_argument
from pitstop.scan.source import Source
from pitstop.tune.patch.sites import Left, Sites, calls_at, in_file
from pitstop.tune.plan import Options

MOVING = ("to", "cuda")
BY_POSITION = {"to": 2, "cuda": 1}  # of ``non_blocking``


def non_blocking(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """An argument of each call that copied to the GPU and waited."""
    copies = [each for each in sites.evidence.operations if _from_host(each)]
    for where in by_line(copies):
        spot = sites.find(where)
        found = [each for each in calls_at(*spot) if _moves(spot[0], each)] if spot else []
        if spot and found:
            edits = [
                add_argument(spot[0], each, "non_blocking=True")
                for each in found
                if not _decided(spot[0], each)
            ]
            yield from in_file(spot[0], edits)
        else:
            yield Left(f"no .to(...) at {sites.show(where)}: give the copy non_blocking=True")


def _from_host(operation: Operation) -> bool:
    if short(operation) not in COPIES or operation.backward or operation.phase == "wait":
        return False
    given = tensors(operation)
    return operation.waits and bool(given) and given[-1].device == "cpu"


def _moves(source: Source, call: ast.Call) -> bool:
    """Whether a call may copy to a device, not only to another type or layout."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in MOVING:
        return False
    target = source.argument(call, "device", 0)
    if call.func.attr == "cuda":
        return True
    return target is not None and source.kind_of(target) != "dtype"


def _decided(source: Source, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    position = BY_POSITION[call.func.attr]
    given = source.argument(call, "non_blocking", position)
    return given is not None or source.open_ended(call)
