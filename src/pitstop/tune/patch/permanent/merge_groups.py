"""Change `merge-groups` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.evidence import Optimizer
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after, insert_import
from pitstop.scan.source import Source
from pitstop.tune.patch.sites import Left, Sites, calls_at, in_file
from pitstop.tune.plan import Options

IMPORT = "from pitstop.parts import merge_groups"


def merge_groups(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """A line behind the building of each optimizer that has groups alike."""
    for optimizer in {each.made: each for each in sites.evidence.optimizers}.values():
        if optimizer.groups == optimizer.unlike_groups:
            continue
        spot = sites.find(optimizer.made)
        named = _named(*spot, optimizer) if spot else None
        if spot and named:
            statement, target = named
            text = f"merge_groups({target})"
            if text not in spot[0].text:
                edits = [insert_after(spot[0], statement, text), insert_import(spot[0], IMPORT)]
                yield from in_file(spot[0], edits)
        else:
            where = sites.show(optimizer.made)
            yield Left(
                f"{optimizer.name} of {where} gets no name there: write `merge_groups(optimizer)` "
                f"behind it, with `{IMPORT}`"
            )


def _named(source: Source, line: int, optimizer: Optimizer) -> tuple[ast.stmt, str] | None:
    """The statement that builds an optimizer, and the one name that it gives it."""
    for call in calls_at(source, line):
        statement = source.statement(call)
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                kind = source.name_of(call.func).rpartition(".")[2]
                if value is call and kind == optimizer.name:
                    return statement, ast.unparse(target)
    return None
