"""Built: where the source calls its models, and where it builds them."""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import ModuleCall
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source
from pitstop.scan.vocabulary import TENSOR_METHODS
from pitstop.tune.sites import Left, Sites, calls_at, show

# Methods of a model that return it, or that belong to setting it up.
SETTLING = {"to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "compile", "apply"}
SETTLING |= {"requires_grad_", "load_state_dict", "double"}
PLAIN_METHODS = {*TENSOR_METHODS, "append", "extend", "items", "keys", "values", "get", "update"}
PLAIN_METHODS |= {"backward", "item", "tolist", "numpy", "format", "join", "step", "zero_grad"}
# Layers of torch's own that have weights: models are made of them.
LAYER = re.compile(
    r"(Lazy)?(Linear|(Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d)|Bilinear|Embedding(Bag)?"
    r"|(SyncBatch|Group|Layer|RMS)Norm|PReLU|MultiheadAttention|NonDynamicallyQuantizableLinear"
    r"|Transformer((En|De)coder(Layer)?)?|Sequential|(RNN|LSTM|GRU)(Cell)?"
)
MOST_MAKERS = 3  # functions between a class and the name that its object gets


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A line of the user's that calls a model, and the call on it."""

    seen: ModuleCall
    source: Source
    line: int
    call: ast.Call

    @property
    def name(self) -> str:
        """What the model is called there: ``model`` of ``self.model(x)``."""
        return _last(self.call.func)


@dataclass(frozen=True, slots=True)
class Build:
    """The statement that gives a new model its name."""

    source: Source
    statement: ast.stmt
    target: str  # ``self.model``

    @property
    def settled(self) -> ast.stmt:
        """The last of the statements behind it that set the model up."""
        last = self.statement
        for each in block_of(self.source, self.statement):
            if each.lineno > last.lineno:
                if not _sets_up(each, self.target):
                    break
                last = each
        return last

    def has(self, text: str) -> bool:
        """Whether setting it up contains a line like this one already."""
        first, last = self.statement.lineno, self.settled.lineno
        block = block_of(self.source, self.statement)
        return any(
            first <= each.lineno <= last and text in self.source.text_of(each) for each in block
        )


def outermost(sites: Sites) -> list[ModuleCall]:
    """The calls of models that a step consists of, one for each line and kind."""
    found = {
        (each.where, each.path, each.kind): each
        for each in sites.evidence.calls
        if each.parent == -1 and each.parameters and not each.recomputed
    }
    return list(found.values())


def model_calls(sites: Sites) -> Iterator[ModelCall | Left]:
    """The calls of the user's that begin a forward pass."""
    for seen in outermost(sites):
        spot = sites.find(seen.where)
        call = _call_of(sites, spot[0], spot[1], seen.kind) if spot else None
        if spot and call:
            yield ModelCall(seen, *spot, call)
        else:
            yield Left(
                f"{seen.kind} is called where the source does not show it, "
                f"{show(seen.where, sites.root)}"
            )


def _call_of(sites: Sites, source: Source, line: int, kind: str) -> ast.Call | None:
    """Which of the calls on a line is that of the model."""
    found = [each for each in calls_at(source, line) if _may_be_model(source, each)]
    named = [each for each in found if _made_as(sites, source, each.func, kind)]
    return next(iter([*named, *found]), None)


def _may_be_model(source: Source, call: ast.Call) -> bool:
    """Whether what is called is an object, and no function or method that we know."""
    match call.func:
        case ast.Name(id=name):
            defined = {each.name for each in (*source.functions, *source.nodes(ast.ClassDef))}
            known = name in defined or name in dir(builtins)
            return not known and source.name_of(call.func) == name
        case ast.Attribute(attr=attribute):
            if attribute in PLAIN_METHODS or source.name_of(call.func).startswith("torch."):
                return False
            methods = {each.name for each in source.functions if source.enclosing_class(each)}
            return attribute not in methods
    return isinstance(call.func, ast.Subscript)


def _made_as(sites: Sites, source: Source, callee: ast.expr, kind: str) -> bool:
    if isinstance(callee, ast.Name) and callee.id == "self":
        owner = source.enclosing_class(callee)
        return owner is not None and owner.name == kind
    last = _last(callee)
    return any(last in map(_last, targets) for _, _, targets in _assignments(sites, {kind}))


def builds(sites: Sites, model: ModelCall) -> list[Build]:
    """Where a model gets its name; none where the source does not tell for certain."""
    by_class = _named(sites, makers(sites, model.seen.kind), model)
    by_name = [each for each in by_class if each.target.rpartition(".")[2] == model.name]
    if by_name:
        return by_name if len({each.target for each in by_name}) == 1 else []
    if LAYER.fullmatch(model.seen.kind):  # there may be many of them inside of models
        by_class = []
    return _bound(model) or _sole(by_class) or _sole(_named(sites, None, model))


def _sole(found: list[Build]) -> list[Build]:
    return found if len(found) == 1 else []


def makers(sites: Sites, kind: str) -> set[str]:
    """A class and the functions that return a new object of it without giving it a name."""
    names = {kind}
    for _ in range(MOST_MAKERS):
        for source in sites.sources:
            for each in source.nodes(ast.Return):
                function = source.enclosing_function(each)
                if function and each.value and _maker(each.value) in names:
                    names.add(function.name)
    return names


def _named(sites: Sites, names: set[str] | None, model: ModelCall) -> list[Build]:
    """Assignments of what these make; with no names, of anything to the model's own name."""
    found = []
    for source, statement, targets in _assignments(sites, names):
        fitting = [each for each in targets if _last(each) == model.name]
        if names is None and not fitting:
            continue
        target = (fitting or targets)[-1]
        found.append(Build(source, statement, ast.unparse(target)))
    return found


def _bound(model: ModelCall) -> list[Build]:
    """The one statement that binds the name in the file of the call."""
    callee = model.call.func
    if not isinstance(callee, ast.Name | ast.Attribute):
        return []
    found = [each for each in reaching(model.source, callee) if each.how == "assign"]
    target = ast.unparse(callee)
    first = [each for each in found if each.value and target not in ast.unparse(each.value)]
    if len(first) != 1 or isinstance(first[0].value, ast.Name):
        return []
    return [Build(model.source, model.source.statement(first[0].target), target)]


def _assignments(
    sites: Sites, names: set[str] | None
) -> Iterator[tuple[Source, ast.stmt, list[ast.expr]]]:
    """Statements that name a new object of one of these, or of any; not what renames itself."""
    for source in sites.sources:
        for each in source.nodes(ast.Assign, ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            named = [one for one in targets if isinstance(one, ast.Name | ast.Attribute)]
            maker = _maker(each.value) if each.value else ""
            if not named or not maker or (names is not None and maker not in names):
                continue
            assert each.value is not None
            value = {
                ast.unparse(part)
                for part in ast.walk(each.value)
                if isinstance(part, ast.Name | ast.Attribute)
            }
            if not value & set(map(ast.unparse, named)):
                yield source, each, list(named)


def _maker(value: ast.expr) -> str:
    """The class or function whose new object this is: ``Net`` of ``Net(8).to(device)``."""
    while isinstance(value, ast.Call):
        if not (isinstance(value.func, ast.Attribute) and value.func.attr in SETTLING):
            return _last(value.func)
        value = value.func.value
    return ""


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last(value)
    return ""


def block_of(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The statements that ``statement`` is one of."""
    above = source.parent(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(above, field, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def _sets_up(statement: ast.stmt, target: str) -> bool:
    """Whether a statement only prepares the model of that name."""
    match statement:
        case ast.Assign(targets=[one], value=ast.Call(func=ast.Attribute(value=owner, attr=name))):
            names = (ast.unparse(one), ast.unparse(owner))
            return name in SETTLING and names == (target, target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))):
            return name in SETTLING and ast.unparse(owner).startswith(target)
        case ast.Expr(value=ast.Call(func=ast.Name(id="fuse_group_norm"), args=[given])):
            return ast.unparse(given).startswith(target)
        case ast.For(iter=ast.Call(func=ast.Attribute(value=owner, attr="modules"))):
            return ast.unparse(owner) == target and "layer" in ast.unparse(statement.target)
    return False


def is_part_of(build: Build, others: list[Build], kinds: set[str]) -> bool:
    """Whether a model is built inside another one that is called too, and so belongs to it."""
    owner = build.source.enclosing_class(build.statement)
    rest = [each for each in others if each is not build]
    return owner is not None and bool(rest) and owner.name in kinds
