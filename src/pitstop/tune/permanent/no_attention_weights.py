"""Change `no-attention-weights` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.evidence import Line
from pitstop.core.finding import Edit
from pitstop.scan.edits import add_argument
from pitstop.scan.first_only import takes_first_only
from pitstop.scan.source import Source
from pitstop.tune.changes.no_attention_weights import NEED_WEIGHTS
from pitstop.tune.plan import Options
from pitstop.tune.seen import writing_weights
from pitstop.tune.sites import Left, Sites, calls_at, in_file, show

FEWEST = 3  # arguments: query, key and value


def no_attention_weights(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """An argument of each call that drops the weights."""
    seen: dict[Line, set[str]] = {}
    for each in writing_weights(sites.evidence):
        seen.setdefault(each.where, set()).add(each.path.rpartition(".")[2])
    for where, names in seen.items():
        spot = sites.find(where)
        found = [each for each in calls_at(*spot) if _drops(spot[0], each)] if spot else []
        if spot and found:
            named = [each for each in found if _called(each) in names]
            edits = [
                add_argument(spot[0], each, "need_weights=False")
                for each in named or found[:1]
                if spot[0].argument(each, "need_weights", NEED_WEIGHTS) is None
            ]
            yield from in_file(spot[0], edits)
        else:
            yield Left(f"{show(where, sites.root)}: give MultiheadAttention need_weights=False")


def _drops(source: Source, call: ast.Call) -> bool:
    """Whether it may be the call of a module with three inputs that drops the second result."""
    if len(call.args) + len(call.keywords) < FEWEST or source.open_ended(call):
        return False
    return not source.name_of(call.func).startswith("torch.") and takes_first_only(source, call)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
