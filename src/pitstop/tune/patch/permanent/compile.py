"""Change `compile` in the source."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from pitstop.core.evidence import ModuleCall
from pitstop.core.finding import Edit
from pitstop.scan.edits import insert_before, set_argument
from pitstop.scan.source import Function, Source
from pitstop.tune.changes.compile import CAPTURED, GIVEN, LIMIT, MOST_GRAPHS
from pitstop.tune.patch.built import outermost
from pitstop.tune.patch.model_lines import Lines, behind_models, parts_of
from pitstop.tune.patch.permanent.checkpointing_off import CHECKPOINT
from pitstop.tune.patch.sites import Left, Sites, in_file, set_up, torch_name
from pitstop.tune.plan import Options, Value
from pitstop.tune.ruled_out import LAYER, may_repeat, no_checkpoint

FEW_BLOCKS = 4  # with a graph for training and one without gradients; torch gives up at 8
GRAPHS = (
    f"{{torch}}._dynamo.config.{LIMIT} = {MOST_GRAPHS}  # of all blocks, which share their code"
)
FLOATS = "{torch}._dynamo.config.specialize_float = True  # else drop path in a checkpoint fails"
BLOCKS = """\
for layer in {model}.modules():
\tif type(layer).__name__ in {names}:
\t\t{compiled}"""
ROUND = (  # blocks hand on what is captured; the next call of the model may write over it
    "{model}.register_forward_pre_hook(lambda *_: {torch}.compiler.cudagraph_mark_step_begin())\n"
)
COPIES = re.compile(  # of a model, or the file of one, with `forward` and all
    r"deepcopy|Averaged|E(MA|ma)\b|ModelE(MA|ma)|torch\.save\(\s*[\w.]*(model|net)\w*\s*,"
)


def compile(sites: Sites, options: Options) -> Iterator[Edit | Left]:  # noqa: A001 torch's name
    """Behind the building of each model, or at what is checkpointed; and what torch needs then."""
    given = ", ".join(f"{name}={_literal(options[name])}" for name in GIVEN if name in options)
    scope = str(options.get("scope", "whole"))
    found = list(SCOPES[scope](sites, given))
    yield from found
    if any(isinstance(each, Edit) for each in found):
        yield from set_up(sites, *_settings(sites, scope))
        if options.get("mode") == CAPTURED:
            yield Left("the model's next call writes over what it returned: clone what is kept")


def _settings(sites: Sites, scope: str) -> Iterator[str]:
    """Without these torch leaves deep networks half compiled, and breaks on checkpointed blocks."""
    if scope != "whole" and _most_alike(sites, scope) > FEW_BLOCKS:
        yield GRAPHS
    if scope != "inside-checkpoints" and not no_checkpoint(sites.evidence):
        yield FLOATS


def _most_alike(sites: Sites, scope: str) -> int:
    """How many modules share the code of what is compiled: each may need graphs of its own."""
    times = _times(sites.evidence.calls)
    kinds: set[str] = set(times)
    if scope == "blocks":
        kinds = {kind for each in outermost(sites) for kind in repeated(sites, each)}
    return max((times[each] for each in kinds), default=0)


def _times(calls: Iterable[ModuleCall]) -> Counter[str]:
    """How many modules there are of each class that has weights, and is not torch's."""
    modules = {(each.path, each.kind) for each in calls if each.parameters}
    return Counter(kind for _, kind in modules if may_repeat(kind))


def _literal(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _whole(sites: Sites, given: str) -> Iterator[Edit | Left]:
    def lines(seen: ModuleCall, model: str, torch: str) -> str:
        return _compiled(sites, [seen.kind], model, torch, given)

    yield from _lines(sites, lines, lambda seen: [seen.kind], parts_too=True)


def _blocks(sites: Sites, given: str) -> Iterator[Edit | Left]:
    def lines(seen: ModuleCall, model: str, torch: str) -> str:
        kinds = repeated(sites, seen)
        names = ", ".join(f'"{each}"' for each in kinds)
        compiled = _compiled(sites, kinds, "layer", torch, given)
        begin = ROUND.format(model=model, torch=torch) if CAPTURED in given else ""
        return begin + BLOCKS.format(model=model, names=f"{{{names}}}", compiled=compiled)

    yield from _lines(sites, lines, lambda seen: repeated(sites, seen), parts_too=False)


def _lines(
    sites: Sites, lines: Lines, kinds: Callable[[ModuleCall], list[str]], parts_too: bool
) -> Iterator[Edit | Left]:
    """Lines behind each model, unless its copies would go on calling what is compiled of it."""
    copied = any(COPIES.search(each.text) for each in sites.sources)

    def bound(seen: ModuleCall) -> bool:
        return copied and _is_passed_over(sites, kinds(seen))

    for kind in dict.fromkeys(each.kind for each in outermost(sites) if bound(each)):
        yield Left(
            f"`.compile()` passes over torch's own `forward`, which {kind} has, and it is copied "
            "or saved as a whole: call what torch.compile returns for it"
        )
    yield from behind_models(
        sites, lines, lambda seen: bool(kinds(seen)) and not bound(seen), parts_too
    )


def _compiled(sites: Sites, kinds: list[str], model: str, torch: str, given: str) -> str:
    """The statement that compiles a model of one of these classes, in place."""
    if not _is_passed_over(sites, kinds):
        return f"{model}.compile({given})"
    given = f", {given}" if given else ""
    return f"{model}.forward = {torch}.compile({model}.forward{given})"


def _is_passed_over(sites: Sites, kinds: list[str]) -> bool:
    """Whether ``Module.compile`` does nothing for such a class: its ``forward`` is torch's own."""
    trees = [ast.walk(source.tree) for source in sites.sources]
    classes = [node for each in trees for node in each if isinstance(node, ast.ClassDef)]
    known: set[str] = set()
    while left := set(kinds) - known:
        if any(map(LAYER.fullmatch, left)):
            return True
        known |= left
        kinds = [
            ast.unparse(base).rpartition(".")[2]
            for each in classes
            if each.name in left and "forward" not in {getattr(x, "name", "") for x in each.body}
            for base in each.bases
        ]
    return False


def repeated(sites: Sites, seen: ModuleCall) -> list[str]:
    """The classes of the outermost inner modules of which there are several."""
    calls = sites.evidence.calls
    parts = sorted(parts_of(sites, seen))
    times = _times(calls[each] for each in parts)
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
