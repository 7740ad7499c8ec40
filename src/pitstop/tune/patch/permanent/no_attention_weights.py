"""Change `no-attention-weights` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Edit
from pitstop.diagnose.facts.attention import TORCHS_OWN
from pitstop.scan.attention_weights import drops_weights
from pitstop.scan.edits import add_argument
from pitstop.scan.source import Source
from pitstop.tune.patch.sites import Left, Sites, calls_at, in_file
from pitstop.tune.plan import Options
from pitstop.tune.ruled_out import writing_weights


def no_attention_weights(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """An argument of each call that drops the weights."""
    for where in dict.fromkeys(each.where for each in writing_weights(sites.evidence)):
        spot = sites.find(where)
        found = _calls(sites, spot[0], where, spot[1]) if spot else []
        if spot and found:
            edits = [add_argument(spot[0], each, "need_weights=False") for each in found]
            yield from in_file(spot[0], edits)
        else:
            yield Left(f"{sites.show(where)}: give MultiheadAttention need_weights=False")


def _calls(sites: Sites, source: Source, where: Line, line: int) -> list[ast.Call]:
    """The calls of attention on a line: those of its name, which nothing else there has."""
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for each in sites.evidence.calls:
        if each.where == where:
            names[each.kind == TORCHS_OWN].add(each.path.rpartition(".")[2])
    if names[True] & names[False]:
        return []
    return [
        each
        for each in calls_at(source, line)
        if _called(each) in names[True] and drops_weights(source, each)
    ]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
