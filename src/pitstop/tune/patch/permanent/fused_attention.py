"""Change `fused-attention` in the source."""

from collections.abc import Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.diagnose.facts.attention import attentions
from pitstop.scan.edits import insert_import
from pitstop.tune.patch.model_lines import behind_models, parts_of
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

IMPORT = "from pitstop.parts import fuse_attention"


def fused_attention(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model that writes attention out."""
    written = {one.call for each in attentions(sites.evidence) for one, _ in each.operations}

    def line(_: ModuleCall, model: str, __: str) -> str:
        return f"fuse_attention({model})"

    changed = set()
    for each in behind_models(sites, line, lambda seen: bool(written & parts_of(sites, seen))):
        yield each
        if isinstance(each, Edit):
            changed.add(each.path)
    for name in sorted(changed):
        source = sites.files[name].source
        yield from in_file(source, [insert_import(source, IMPORT)])
