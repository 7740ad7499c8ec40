"""Change `fused-group-norm` in the source."""

from collections.abc import Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.diagnose.facts.operations import short
from pitstop.scan.edits import insert_import
from pitstop.tune.patch.model_lines import behind_models, parts_of
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

IMPORT = "from pitstop.parts import fuse_group_norm"
NORM = "native_group_norm"


def fused_group_norm(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model that normalises groups."""

    def normalises(seen: ModuleCall) -> bool:
        parts = parts_of(sites, seen)
        return any(each.call in parts and short(each) == NORM for each in sites.evidence.operations)

    changed = set()
    for each in behind_models(sites, lambda _, model, __: f"fuse_group_norm({model})", normalises):
        yield each
        if isinstance(each, Edit):
            changed.add(each.path)
    for name in sorted(changed):
        source = sites.files[name].source
        yield from in_file(source, [insert_import(source, IMPORT)])
