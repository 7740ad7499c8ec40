"""Change `checkpointing-off` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import remove_argument, remove_statement
from pitstop.scan.source import Source
from pitstop.tune.changes.checkpointing_off import OF_CHECKPOINT
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

CHECKPOINT = "torch.utils.checkpoint.checkpoint"
ENABLING = "gradient_checkpointing_enable"  # of models of transformers and diffusers


def checkpointing_off(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """``checkpoint(f, x)`` becomes ``f(x)``."""
    found = False
    for source in sites.sources:
        for call in source.calls(CHECKPOINT):
            found = True
            yield from _direct(source, call)
        for call in source.method_calls(ENABLING):
            found = True
            statement = source.statement(call)
            if isinstance(statement, ast.Expr):
                yield from in_file(source, [remove_statement(source, statement)])
    if not found and any(each.recomputed for each in sites.evidence.calls):
        yield Left("a library checkpoints: switch it off where the model is built")


def _direct(source: Source, call: ast.Call) -> Iterator[Edit | Left]:
    if not call.args or isinstance(call.args[0], ast.Starred):
        yield Left(f"{source.path}:{call.lineno} does not show what it checkpoints: call that")
        return
    function, *rest = call.args
    text = source.text_of(function)
    plain = isinstance(function, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    start = source.extent(call)[0]
    own = [each for each in call.keywords if each.arg in OF_CHECKPOINT]
    kept = [*rest, *(each for each in call.keywords if each not in own)]
    # Up to the first argument that stays, or to the closing parenthesis.
    end = source.extent(kept[0])[0] if kept else source.extent(call)[1] - 1
    yield Edit(start, end, f"{text if plain else f'({text})'}(", source.path)
    if kept:
        for each in own:
            yield from in_file(source, [remove_argument(source, call, each)])
