"""Change `compile` in the source."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_before, set_argument
from pitstop.scan.source import Function, Source
from pitstop.tune.built import LAYER
from pitstop.tune.changes.compile import GIVEN
from pitstop.tune.model_lines import behind_models, parts_of
from pitstop.tune.permanent.checkpointing_off import CHECKPOINT
from pitstop.tune.plan import Options, Value
from pitstop.tune.sites import Left, Sites, in_file, torch_name

BLOCKS = """\
for layer in {model}.modules():
\tif type(layer).__name__ in {names}:
\t\tlayer.compile({given})"""


def compile(sites: Sites, options: Options) -> Iterator[Edit | Left]:  # noqa: A001 torch's name
    """Behind the building of each model, or at what is checkpointed."""
    given = ", ".join(f"{name}={_literal(options[name])}" for name in GIVEN if name in options)
    yield from SCOPES[str(options.get("scope", "whole"))](sites, given)


def _literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _whole(sites: Sites, given: str) -> Iterator[Edit | Left]:
    yield from behind_models(
        sites, lambda _, model, __: f"{model}.compile({given})", lambda _: True, parts_too=True
    )


def _blocks(sites: Sites, given: str) -> Iterator[Edit | Left]:
    def lines(seen: ModuleCall, model: str, _: str) -> str:
        names = ", ".join(f'"{each}"' for each in repeated(sites, seen))
        return BLOCKS.format(model=model, names=f"{{{names}}}", given=given)

    yield from behind_models(sites, lines, lambda seen: bool(repeated(sites, seen)))


def repeated(sites: Sites, seen: ModuleCall) -> list[str]:
    """The classes of the outermost inner modules of which there are several."""
    calls = sites.evidence.calls
    parts = sorted(parts_of(sites, seen))
    modules = {(calls[each].path, calls[each].kind) for each in parts if calls[each].parameters}
    times = Counter(kind for _, kind in modules if not LAYER.fullmatch(kind))
    taken: set[int] = set()
    names: dict[str, None] = {}
    for position in parts:
        call = calls[position]
        if call.parent in taken:
            taken.add(position)
        elif call.parent != -1 and times[call.kind] > 1:
            taken.add(position)
            names[call.kind] = None
    return list(names)


def _inside_checkpoints(sites: Sites, given: str) -> Iterator[Edit | Left]:
    done: set[tuple[str, int]] = set()
    for source in sites.sources:
        for call in source.calls(CHECKPOINT):
            method = _method(source, call.args[0]) if call.args else None
            if method is None:
                yield Left(
                    f"{source.path}:{call.lineno} checkpoints no method of its class: "
                    "compile that function by hand"
                )
                continue
            if source.argument(call, "use_reentrant") is None:
                yield from in_file(source, [set_argument(source, call, "use_reentrant", "False")])
            if method.lineno not in {line for path, line in done if path == source.path}:
                done.add((source.path, method.lineno))
                yield from _decorated(source, method, given)


def _method(source: Source, node: ast.expr) -> Function | None:
    """The method of the same class that ``self.name`` is."""
    owner = source.enclosing_class(node)
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if owner:
            return next(
                (
                    each
                    for each in source.functions
                    if each.name == name and source.parent(each) is owner
                ),
                None,
            )
    return None


def _decorated(source: Source, method: Function, given: str) -> Iterator[Edit]:
    if any(
        ast.unparse(each).endswith("compile") or "compile(" in ast.unparse(each)
        for each in method.decorator_list
    ):
        return
    torch, imports = torch_name(source)
    yield from imports
    text = f"@{torch}.compile({given})" if given else f"@{torch}.compile"
    yield from in_file(source, [insert_before(source, method, text)])


SCOPES: dict[str, Callable[[Sites, str], Iterator[Edit | Left]]] = {
    "whole": _whole,
    "blocks": _blocks,
    "inside-checkpoints": _inside_checkpoints,
}
