"""Model lines: what is written behind the statement that builds a model."""

import ast
from collections.abc import Callable, Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_after
from pitstop.scan.source import Source
from pitstop.tune.patch.built import Build, ModelCall, builds, is_part_of, model_calls
from pitstop.tune.patch.regions import indent_unit
from pitstop.tune.patch.sites import Left, Sites, in_file, torch_name

Lines = Callable[[ModuleCall, str, str], str]  # of a call, a model's name and torch's


def behind_models(
    sites: Sites, lines: Lines, wanted: Callable[[ModuleCall], bool], parts_too: bool = False
) -> Iterator[Edit | Left]:
    """Write lines behind the building of each wanted model.

    A model that is a part of another one has been reached with that one, unless each call counts.
    """
    found: dict[tuple[str, int, str], tuple[ModelCall, Build]] = {}
    for model in model_calls(sites):
        if isinstance(model, Left):
            yield model
        elif wanted(model.seen):
            own = builds(sites, model)
            for each in own:
                found[each.source.path, each.statement.lineno, each.part] = model, each
            if not own:
                text = " ".join(lines(model.seen, "model", "torch").split())
                yield Left(
                    f"{model.seen.kind} is built where the source does not show it: "
                    f"write `{text}` behind that"
                )
    every = [build for _, build in found.values()]
    kinds = {model.seen.kind for model, _ in found.values()}
    for model, build in found.values():
        if parts_too or not is_part_of(build, every, kinds):
            yield from _behind(build, model, lines)


def _behind(build: Build, model: ModelCall, lines: Lines) -> Iterator[Edit | Left]:
    source = build.source
    torch, imports = torch_name(source)
    text = lines(model.seen, build.model, torch).replace("\t", indent_unit(source))
    if build.has(text.splitlines()[-1].strip()):
        return
    try:
        edit = insert_after(source, build.settled, text)
    except ValueError as error:
        yield Left(f"{source.path}: {error}: write `{text}` behind it")
        return
    yield from imports if f"{torch}." in text else []
    yield from in_file(source, [edit])


def parts_of(sites: Sites, seen: ModuleCall) -> set[int]:
    """The positions of all calls inside the calls of a model."""
    found: set[int] = set()
    for position, each in enumerate(sites.evidence.calls):
        same = (each.path, each.kind, each.parent) == (seen.path, seen.kind, -1)
        if same or each.parent in found:
            found.add(position)
    return found


def needs_parentheses(node: ast.expr) -> bool:
    """Whether ``.method()`` behind an expression would bind to its last part only."""
    return not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def with_method(source: Source, node: ast.expr, method: str) -> list[Edit]:
    """The edits that put a method's call behind an expression."""
    start, end = source.extent(node)
    if needs_parentheses(node):
        return [Edit(start, start, "(", source.path), Edit(end, end, f"){method}", source.path)]
    return [Edit(end, end, method, source.path)]
