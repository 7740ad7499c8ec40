"""PIT610 tiles-one-at-a-time."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import computed_from, loops_around, names_in
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source

NETWORK = re.compile(
    r"(?:^|_)(?:model|net|network|net_?g|encoder|decoder|vae|unet|transformer|forward|encode"
    r"|decode|generator|upsampler|denoise|backbone)$|model$|net$",
    re.IGNORECASE,
)
LAYERS_BEFORE = 2  # tile = x[...]; tile = self.post_quant_conv(tile); self.decoder(tile)
AXES = 2  # rows and columns: a loop over frames or batches cuts along one axis only


@rule("PIT610")
def tiles_one_at_a_time(source: Source) -> Iterator[Finding]:
    """Tiles of a picture go through the network one by one.

    A small tile does not fill a GPU: tiles of one size go through together, as a batch. How
    many fit is a matter of memory. A large tile may fill the GPU alone: a batch saves at most
    the time above the hardware's floor, and only a run tells. For a VAE,
    `pitstop.parts.TiledVae` plans the fewest tiles that fit, batches them where that wins, and
    computes little of the overlap twice.

    Bad:
        for top in range(0, height, 64):
            for left in range(0, width, 64):
                tile = image[:, :, top : top + 64, left : left + 64]
                result[:, :, top : top + 64, left : left + 64] = model(tile)

    Good:
        tiles = torch.nn.functional.unfold(image, 64, stride=64)
        result = model(tiles.view(3, 64, 64, -1).permute(3, 0, 1, 2))
    """
    seen: set[ast.AST] = set()
    nested = any(map(source.enclosing_loop, source.nodes(ast.For)))
    for call in source.nodes(ast.Call) if nested else ():
        if not NETWORK.search(_last_name(call.func)):
            continue
        loops = loops_around(source, call)
        if len(loops) < AXES or not seen.isdisjoint(loops):
            continue
        if any(_is_tile(source, each, loops) for each in call.args):
            seen.update(loops)
            message = f"Tiles go through `{ast.unparse(call.func)}` one by one."
            yield source.finding(call, message, confidence="suspected", changes=("tiled-vae",))


def _last_name(function: ast.expr) -> str:
    """``decode`` of ``self.vae.decode``."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_tile(source: Source, argument: ast.expr, loops: list[ast.For]) -> bool:
    """Whether an argument is a cut along two axes, each of which moves with another loop."""
    for cut in _cuts(source, argument, LAYERS_BEFORE):
        indices = cut.slice.elts if isinstance(cut.slice, ast.Tuple) else []
        axes = [names_in(each) for each in indices if _is_stretch(source, each)]
        if len(axes) >= AXES and source.is_inside(cut, loops[0]) and _both_move(axes, loops):
            return True
    return False


def _cuts(source: Source, value: ast.expr, depth: int) -> Iterator[ast.Subscript]:
    """Subscripts that a value is made from, also through a layer or two before the network."""
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript):
            yield node
        elif isinstance(node, ast.Name) and depth:
            for each in source.assigned(node) or []:
                yield from _cuts(source, each, depth - 1)


def _both_move(axes: list[set[str]], loops: list[ast.For]) -> bool:
    """Whether two axes move, each with a loop of its own."""
    moves = [(i, j) for i, loop in enumerate(loops) for j in _axes_moved(axes, loop)]
    return any(i != k and j != n for i, j in moves for k, n in moves)


def _axes_moved(axes: list[set[str]], loop: ast.For) -> list[int]:
    moved = computed_from(loop)
    return [number for number, axis in enumerate(axes) if axis & moved]


def _is_stretch(source: Source, index: ast.expr) -> bool:
    """Whether an index takes a stretch of an axis: ``a:b``, or a name that holds a slice."""
    if isinstance(index, ast.Slice):
        return index.lower is not None and index.upper is not None
    bound = reaching(source, index) if isinstance(index, ast.Name) else []
    return any(each.value is not None and "slice(" in source.text_of(each.value) for each in bound)
