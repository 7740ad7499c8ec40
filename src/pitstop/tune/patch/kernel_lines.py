"""Kernel lines: what is written into autograd functions that launch kernels of their own."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_before, line_indent, newline
from pitstop.scan.source import Source
from pitstop.tune.inside.kernels import ADDRESS, CASTS, ELSEWHERE, METHODS
from pitstop.tune.patch.regions import indent_unit
from pitstop.tune.patch.sites import Sites, in_file, quoted, torch_name

FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")
CAST = {
    "forward": "@{torch}.amp.custom_fwd(device_type={device}, cast_inputs={torch}.float32)",
    "backward": "@{torch}.amp.custom_bwd(device_type={device})",
}
DONE = "each.contiguous()"
ONE = "{names} = {names}.contiguous()"
SEVERAL = """\
{names} = (
\teach.contiguous() if isinstance(each, {torch}.Tensor) else each
\tfor each in ({names})
)"""


def in_float32(sites: Sites) -> Iterator[Edit]:
    """Decorators with which they compute in float32 under autocast."""
    for source, method in _methods(sites):
        if CASTS in source.text:
            continue
        torch, imports = torch_name(source)
        yield from imports
        device = quoted(source, sites.device)
        line = CAST[method.name].format(torch=torch, device=device)
        start = source.lines.starts[method.lineno - 1]  # of ``def``, below other decorators
        text = f"{line_indent(source, method)}{line}{newline(source)}"
        yield Edit(start, start, text, source.path)


def row_by_row(sites: Sites) -> Iterator[Edit]:
    """Lines with which they take their inputs as contiguous tensors."""
    for source, method in _methods(sites):
        given = [each.arg for each in (*method.args.posonlyargs, *method.args.args)[1:]]
        text = source.text_of(method)
        every = not method.args.vararg and all(f"{each}.contiguous()" in text for each in given)
        if DONE in text or every:
            continue
        if method.args.vararg:
            given.append(f"*{method.args.vararg.arg}" + ("" if given else ","))
        torch, imports = torch_name(source)
        yield from imports
        lines = SEVERAL if given[1:] or method.args.vararg else ONE
        text = lines.format(names=", ".join(given), torch=torch)
        text = text.replace("\t", indent_unit(source))
        first = method.body[1 if ast.get_docstring(method) and method.body[1:] else 0]
        if first.lineno == method.lineno:
            raise ValueError(f"{source.path}:{first.lineno} has no line for it")
        yield from in_file(source, [insert_before(source, first, text)])


def _methods(sites: Sites) -> Iterator[tuple[Source, ast.FunctionDef]]:
    """Forward and backward of each function that launches kernels, with its file."""
    for source in sites.sources:
        if ADDRESS not in source.text:
            continue
        for each in source.nodes(ast.ClassDef):
            own = [inner for inner in each.body if isinstance(inner, ast.FunctionDef)]
            known = any(source.is_a(each, name) for name in FUNCTIONS)
            if known and ELSEWHERE not in {inner.name for inner in own}:
                yield from ((source, inner) for inner in own if inner.name in METHODS)
