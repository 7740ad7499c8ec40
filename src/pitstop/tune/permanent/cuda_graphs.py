"""Change `cuda-graphs` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_import
from pitstop.tune.model_lines import behind_models
from pitstop.tune.plan import Options
from pitstop.tune.sites import Left, Sites, in_file

IMPORT = "from pitstop.parts import graphed"


def cuda_graphs(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model."""
    changed = set()
    for each in behind_models(sites, lambda _, model, __: f"graphed({model})", lambda _: True):
        yield each
        if isinstance(each, Edit):
            changed.add(each.path)
    for name in sorted(changed):
        source = sites.files[name].source
        yield from in_file(source, [insert_import(source, IMPORT)])
