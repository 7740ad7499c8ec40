"""Change `selective-checkpoints` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_import, remove_argument
from pitstop.scan.source import Source
from pitstop.tune.changes.checkpointing_off import OF_CHECKPOINT
from pitstop.tune.patch.model_lines import behind_models
from pitstop.tune.patch.permanent.checkpointing_off import CHECKPOINT
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

GIB = 2**30
PART = "from pitstop.parts import selective_checkpoints"
OWN = "from pitstop.parts.checkpoints import Checkpoints, Room"
NAME = "checkpointed"  # what calls of checkpoint become


def selective_checkpoints(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model; or in place of the calls of ``checkpoint``."""
    if options.get("blocks"):
        yield from _behind_models(sites, f"keep={options.get('keep')}")
        return
    found = [(each, call) for each in sites.sources for call in each.calls(CHECKPOINT)]
    files = {each.path: each for each, _ in found}
    if len(files) != 1:
        where = "in several files" if files else "in a library"
        yield Left(f"checkpoint is called {where}: call one `Checkpoints()` of pitstop.parts there")
        return
    for source, call in found:
        yield from _replaced(source, call)
    (source,) = files.values()
    made = f"{OWN}\n\n{NAME} = Checkpoints({_room(options)})"
    yield from in_file(source, [insert_import(source, made)])


def _behind_models(sites: Sites, given: str) -> Iterator[Edit | Left]:
    changed = set()
    for each in behind_models(
        sites, lambda _, model, __: f"selective_checkpoints({model}, {given})", lambda _: True
    ):
        yield each
        if isinstance(each, Edit):
            changed.add(each.path)
    for name in sorted(changed):
        source = sites.files[name].source
        yield from in_file(source, [insert_import(source, PART)])


def _replaced(source: Source, call: ast.Call) -> Iterator[Edit]:
    start, end = source.extent(call.func)
    yield Edit(start, end, NAME, source.path)
    for each in call.keywords:
        if each.arg in OF_CHECKPOINT:
            yield from in_file(source, [remove_argument(source, call, each)])


def _room(options: Options) -> str:
    if "keep" in options:
        return f"Room(keep={options['keep']})"
    if "peak_gib" in options:
        return f"Room(peak_bytes={int(float(options['peak_gib']) * GIB)})"
    return "Room()"
