"""Change `cuda-graphs` in the source."""

from collections.abc import Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_import
from pitstop.tune.patch.model_lines import behind_models
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

IMPORT = "from pitstop.parts import graphed"


def cuda_graphs(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model."""
    changed = set()
    more = ", blocks=True" if options.get("scope") == "blocks" else ""

    def line(_: ModuleCall, model: str, __: str) -> str:
        return f"graphed({model}{more})"

    for each in behind_models(sites, line, lambda _: True):
        yield each
        if isinstance(each, Edit):
            changed.add(each.path)
    for name in sorted(changed):
        source = sites.files[name].source
        yield from in_file(source, [insert_import(source, IMPORT)])
