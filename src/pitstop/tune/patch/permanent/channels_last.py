"""Change `channels-last` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.diagnose.facts.operations import TENSOR, short, tensors
from pitstop.scan.edits import insert_before
from pitstop.scan.source import Source
from pitstop.tune.patch.built import ModelCall, model_calls
from pitstop.tune.patch.kernel_lines import row_by_row
from pitstop.tune.patch.model_lines import behind_models, parts_of, with_method
from pitstop.tune.patch.sites import Left, Sites, in_file, torch_name
from pitstop.tune.plan import Options

WIDTH = 88  # columns; a file with longer lines allows more
LAYOUTS = {4: "channels_last", 5: "channels_last_3d"}
BOTH = """\
for layer in {model}.modules():
\tif isinstance(layer, ({torch}.nn.Conv2d, {torch}.nn.ConvTranspose2d)):
\t\tlayer.to(memory_format={torch}.channels_last)
\telif isinstance(layer, ({torch}.nn.Conv3d, {torch}.nn.ConvTranspose3d)):
\t\tlayer.to(memory_format={torch}.channels_last_3d)"""


def channels_last(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Behind the building of each model with convolutions, and at what it is given."""

    def lines(seen: ModuleCall, model: str, torch: str) -> str:
        ranks = _ranks(sites, seen)
        if len(ranks) > 1:
            return BOTH.format(model=model, torch=torch)
        return f"{model} = {model}.to(memory_format={torch}.{LAYOUTS[ranks.pop()]})"

    yield from behind_models(sites, lines, lambda seen: bool(_ranks(sites, seen)))
    for model in model_calls(sites):
        if isinstance(model, ModelCall) and _ranks(sites, model.seen):
            yield from _inputs(model)
    yield from row_by_row(sites)


def _ranks(sites: Sites, seen: ModuleCall) -> set[int]:
    """The dimensions of the weights that its convolutions have."""
    parts = parts_of(sites, seen)
    found = set()
    for operation in sites.evidence.operations:
        if operation.call in parts and short(operation) == "convolution":
            found |= {len(each.sizes) for each in tensors(operation)[1:2]}
    return found & LAYOUTS.keys()


def _inputs(model: ModelCall) -> Iterator[Edit]:
    """Lay out what the model is given, where the source shows which of it are pictures.

    Elsewhere the first convolution does so, since its weights are laid out.
    """
    call, source = model.call, model.source
    given = [*call.args, *(each.value for each in call.keywords)]
    shapes = TENSOR.findall(model.seen.shapes)
    if len(given) != len(shapes) or source.open_ended(call):
        return
    torch, _ = torch_name(source)
    pictures: list[tuple[ast.expr, str]] = []
    for node, (kind, sizes, _) in zip(given, shapes, strict=True):
        layout = LAYOUTS.get(len(sizes.split(",")))
        if layout and "float" in kind and not _is_laid_out(source, node):
            pictures.append((node, f".to(memory_format={torch}.{layout})"))
    yield from _converted(source, call, pictures)


def _converted(
    source: Source, call: ast.Call, pictures: list[tuple[ast.expr, str]]
) -> Iterator[Edit]:
    """In place where the line stays short enough, else on lines before."""
    line = source.text.splitlines()[call.lineno - 1]
    longer = len(line) + sum(len(method) for _, method in pictures)
    names = dict.fromkeys(
        (node.id, method) for node, method in pictures if isinstance(node, ast.Name)
    )
    if longer <= max(WIDTH, *map(len, source.text.splitlines())) or len(names) < len(pictures):
        for node, method in pictures:
            yield from with_method(source, node, method)
        return
    lines = "\n".join(f"{name} = {name}{method}" for name, method in names)
    yield from in_file(source, [insert_before(source, source.statement(call), lines)])


def _is_laid_out(source: Source, node: ast.expr) -> bool:
    """Whether the source lays out what it gives the model already."""
    if "memory_format" in source.text_of(node):
        return True
    values = source.assigned(node) or [] if isinstance(node, ast.Name) else []
    return any("channels_last" in source.text_of(each) for each in values)
