"""Autocasting: half precision written into the source, where it was tried from outside."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after, insert_before, replace, set_argument
from pitstop.scan.scopes import scope_of
from pitstop.scan.source import Source
from pitstop.scan.vocabulary import TENSOR_METHODS
from pitstop.tune.patch.built import ModelCall, model_calls
from pitstop.tune.patch.kernel_lines import in_float32
from pitstop.tune.patch.regions import (
    Region,
    called_from,
    contexts,
    indent_unit,
    learning_regions,
    put_in,
)
from pitstop.tune.patch.sites import Left, Sites, in_file, quoted, torch_name

AUTOCAST = {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
DTYPE, ENABLED = 1, 2  # positions of these arguments of ``torch.autocast``
SHARED = "statements share their line with others"


def autocast(sites: Sites, dtype: str) -> Iterator[Edit | Left]:
    """Put autocast around forward pass and loss, or around each call where nothing is learned."""
    found = list(_autocast(sites, dtype))
    yield from found
    if any(isinstance(each, Edit) for each in found):
        yield from in_float32(sites)


def _autocast(sites: Sites, dtype: str) -> Iterator[Edit | Left]:
    done: set[tuple[str, int]] = set()
    if not learns(sites):
        for model in model_calls(sites):
            yield from [model] if isinstance(model, Left) else _inferring(sites, model, dtype)
        return
    for region in learning_regions(sites):
        if isinstance(region, Left):
            yield region
            continue
        own = _own(region)
        for source, call in own:
            if (source.path, call.lineno) not in done:
                done.add((source.path, call.lineno))
                yield from _switched(source, call, dtype)
        if not own:
            yield from _around(sites, region, dtype)


def learns(sites: Sites) -> bool:
    """Whether the steps of the run learn."""
    return any(each.graph and each.training for each in sites.evidence.calls if each.parent == -1)


def _own(region: Region) -> list[tuple[Source, ast.Call]]:
    """The autocasts that the source has: around the model's call, around the region or in it."""
    first = (*region.statements, region.backward)[0]
    model = region.model
    around = [(model.source, each) for each in contexts(model.source, model.call)]
    around += [(region.source, each) for each in contexts(region.source, first)]
    for statement in region.statements:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.With):
                around += [(region.source, item.context_expr) for item in inner.items]
    return [
        (source, each)
        for source, each in around
        if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("autocast")
    ]


def _switched(source: Source, call: ast.Call, dtype: str) -> Iterator[Edit | Left]:
    """An autocast that is there and was off: switch it on, with our type."""
    where = f"{source.path}:{call.lineno}"
    if source.name_of(call.func) not in AUTOCAST or source.open_ended(call):
        yield Left(f"{ast.unparse(call.func)} of {where} decides: let it use {dtype}")
        return
    torch, imports = torch_name(source)
    enabled = source.argument(call, "enabled", ENABLED)
    wanted = {"dtype": (source.argument(call, "dtype", DTYPE), f"{torch}.{dtype}")}
    if enabled is not None:
        wanted["enabled"] = (enabled, "True")
    for name, (present, value) in wanted.items():
        if present is None:
            yield from in_file(source, [set_argument(source, call, name, value)])
        elif source.name_of(present) != f"torch.{dtype}" and source.text_of(present) != value:
            yield from in_file(source, [replace(source, present, value)])
    yield from imports


def _header(sites: Sites, source: Source, torch: str, dtype: str) -> str:
    return f"with {torch}.autocast({quoted(source, sites.device)}, dtype={torch}.{dtype}):"


def _around(sites: Sites, region: Region, dtype: str) -> Iterator[Edit | Left]:
    source = region.source
    torch, imports = torch_name(source)
    header = _header(sites, source, torch, dtype)
    if region.statements:
        edits = put_in(source, region.statements, header)
    else:
        edits = _taken_out(region, header)
    if edits is None:
        yield Left(f"{SHARED} at {source.path}:{region.backward.lineno}: write `{header}` there")
        return
    yield from imports
    yield from edits


def _taken_out(region: Region, header: str) -> list[Edit] | None:
    """``criterion(model(x), y).backward()``: what is learned from gets a name, and the context."""
    source, call = region.source, region.call
    name = "loss"
    known = (scope_of(source, call), name) in source.bindings
    if region.backward is not source.statement(call) or known:
        return None
    assert isinstance(call.func, ast.Attribute)
    value = call.func.value
    body = source.text_of(value)
    if value.lineno != value.end_lineno:
        return None
    lines = f"{header}\n{indent_unit(source)}{name} = {body}"
    before = insert_before(source, region.backward, lines)
    return list(in_file(source, [before, replace(source, value, name)]))


def _inferring(sites: Sites, model: ModelCall, dtype: str) -> Iterator[Edit | Left]:
    """Around the call alone, and the result as float32, since the script goes on with it."""
    source = model.source
    torch, imports = torch_name(source)
    header = _header(sites, source, torch, dtype)
    if any(
        isinstance(each, ast.Call) and source.name_of(each.func) in AUTOCAST
        for each in contexts(source, model.call)
    ):
        return
    match source.statement(model.call):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            edits = put_in(source, (statement,), header)
            if value is model.call and edits and _is_tensor(source, statement, name):
                yield from imports
                yield from edits
                back = insert_after(source, statement, f"{name} = {name}.float()")
                yield from in_file(source, [back])
                return
    yield Left(f"write `{header}` around {called_from(model)}, and give its result .float()")


def _is_tensor(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether the function goes on with the name as only a tensor allows."""
    function = source.enclosing_function(statement)
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == name
        and call.lineno > statement.lineno
        and source.enclosing_function(call) is function
        for call in source.method_calls(*TENSOR_METHODS)
    )
