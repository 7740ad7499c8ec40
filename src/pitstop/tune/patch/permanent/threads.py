"""Change `threads` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import replace
from pitstop.tune.patch.sites import Left, Sites, in_file, set_up
from pitstop.tune.plan import Options


def threads(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Where the source sets their number, or below the imports."""
    wanted = str(options["threads"])
    found = False
    for source in sites.sources:
        for call in source.calls("torch.set_num_threads"):
            if len(call.args) == 1 and source.enclosing(call, ast.If, ast.Try) is None:
                found = True
                if source.text_of(call.args[0]) != wanted:
                    yield from in_file(source, [replace(source, call.args[0], wanted)])
    if not found:
        yield from set_up(sites, f"{{torch}}.set_num_threads({wanted})")
