"""Change `batch-size` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.source import Source
from pitstop.tune.patch.arguments import give, loader_calls
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

POSITION = 1  # of ``batch_size`` among the arguments of a DataLoader


def batch_size(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Twice what every DataLoader was given, if there are so many samples."""
    factor = int(options.get("factor", 2))
    for found in loader_calls(sites):
        if isinstance(found, Left):
            yield found
            continue
        size, length = found.loader.batch_size, found.loader.length
        if size is None or (length is not None and length < factor * size):
            continue
        value = _larger(
            found.source, found.source.argument(found.call, "batch_size", POSITION), factor, size
        )
        edits = give(found.source, found.call, {"batch_size": value})
        yield from in_file(found.source, edits)


def _larger(source: Source, present: ast.expr | None, factor: int, size: int) -> str:
    """The number itself where it is written out, else a product."""
    if present is None or source.literal(present) in (size, factor * size):
        return str(factor * size)
    text = source.text_of(present)
    if text.startswith(f"{factor} * "):
        return text
    simple = isinstance(present, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{factor} * {text}" if simple else f"{factor} * ({text})"
