"""Change `no-empty-cache` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import remove_statement
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

EMPTYING = "torch.cuda.empty_cache"  # as it is recorded, too


def no_empty_cache(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Without the calls: those of the recorded step, or all where none was seen."""
    seen = set()
    for where in {each.where for each in sites.evidence.operations if each.name == EMPTYING}:
        if spot := sites.find(where):
            seen.add((spot[0].path, spot[1]))
        else:
            yield Left(f"{sites.show(where)} empties it, which is no file of yours")
    for source in sites.sources:
        for call in source.calls(EMPTYING):
            statement = source.statement(call)
            if seen and (source.path, call.lineno) not in seen:
                continue
            if isinstance(statement, ast.Expr) and statement.value is call:
                yield from in_file(source, [remove_statement(source, statement)])
            else:
                yield Left(f"{source.path}:{call.lineno} is more than a call: drop it by hand")
