"""Change `tiled-vae` in the source."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after, insert_import
from pitstop.scan.source import Source
from pitstop.tune.patch.built import Build
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

IMPORT = "from pitstop.parts import Tiling, enable_tiling"
WAYS = {"encode", "decode"}  # of a VAE that a script uses by itself
VAE = re.compile(r"vae|autoencoder", re.IGNORECASE)  # in what makes it: tokenizers decode as well


def tiled_vae(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Behind the building of each VAE whose ``encode`` or ``decode`` the source calls."""
    share = options.get("share", 0.5)
    used = {name for source in sites.sources for name in _used(source)}
    found = [build for source in sites.sources for build in _vaes(source, used)]
    if not found:
        yield Left(
            "no line of the source builds a VAE by name: behind the line that does, write "
            f"enable_tiling(vae, Tiling(share={share})); for tiles that the script cuts itself, "
            "TiledVae(vae).decode(latent) in place of the loop"
        )
    for build in found:
        source, text = build.source, f"enable_tiling({build.target}, Tiling(share={share}))"
        if f"enable_tiling({build.target}" not in source.text:
            edits = [insert_after(source, build.settled, text), insert_import(source, IMPORT)]
            yield from in_file(source, edits)


def _used(source: Source) -> Iterator[str]:
    """The last name of all that ``encode`` or ``decode`` is called on."""
    for call in source.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAYS:
            yield _last(call.func.value)


def _vaes(source: Source, used: set[str]) -> Iterator[Build]:
    for each in source.nodes(ast.Assign):
        target = each.targets[0]
        made = isinstance(each.value, ast.Call) and VAE.search(ast.unparse(each.value.func))
        if made and _last(target) in used and isinstance(target, ast.Name | ast.Attribute):
            yield Build(source, each, ast.unparse(target))


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
