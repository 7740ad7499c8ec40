"""Built: where the source calls its models, and where it builds them."""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from pitstop.core.evidence import ModuleCall
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source
from pitstop.scan.vocabulary import TENSOR_METHODS
from pitstop.tune.patch.sites import Left, Sites, calls_at
from pitstop.tune.ruled_out import LAYER

# Methods of a model that return it, or that belong to setting it up.
SETTLING = {"to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "compile", "apply"}
SETTLING |= {"requires_grad_", "load_state_dict", "double", "register_forward_pre_hook"}
PLAIN_METHODS = {*TENSOR_METHODS, "append", "extend", "items", "keys", "values", "get", "update"}
PLAIN_METHODS |= {"backward", "item", "tolist", "numpy", "format", "join", "step", "zero_grad"}
PARTS = {
    "fuse_attention",
    "fuse_group_norm",
    "graphed",
    "selective_checkpoints",
}  # they change a model in place
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
    part: str = ""  # of it, where only a part is called: ``decoder`` of a ``vae.decode(x)``

    @property
    def model(self) -> str:
        """What the model that is called can be reached by."""
        return f"{self.target}.{self.part}" if self.part else self.target

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
                f"{seen.kind} is called where the source does not show it, {sites.show(seen.where)}"
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
    called = _bound(model.source, model.call.func)
    return called or _sole(by_class) or _sole(_named(sites, None, model)) or _of_method(model)


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


def _bound(source: Source, name: ast.expr, part: str = "") -> list[Build]:
    """The one statement of the file that binds a name."""
    if not isinstance(name, ast.Name | ast.Attribute):
        return []
    found = [each for each in reaching(source, name) if each.how == "assign"]
    target = ast.unparse(name)
    first = [each for each in found if each.value and target not in ast.unparse(each.value)]
    if part and not first:  # a later statement that sets it up binds it anew
        first = [each for each in found if each.value and _settled(each.value) == target]
    if len(first) != 1 or isinstance(first[0].value, ast.Name):
        return []
    return [Build(source, source.statement(first[0].target), target, part)]


def _of_method(model: ModelCall) -> list[Build]:
    """Where an object is built of which a method calls a part: ``vae`` of ``vae.decode(x)``."""
    part = model.seen.path  # below the outermost module; that one would be called by its class
    match model.call.func:
        case ast.Attribute(value=owner) if part[:1].islower():
            part = _below(ast.unparse(owner), part)
        case _:
            return []
    while not (found := _bound(model.source, owner, part)) and isinstance(owner, ast.Attribute):
        part, owner = f"{owner.attr}.{part}", owner.value
    return found


def _below(owner: str, path: str) -> str:
    """A path below an object: ``decoder`` of ``vae.decoder`` below ``self.vae``."""
    names = owner.split(".")
    above = (".".join(names[first:]) for first in range(len(names)))
    return next((path.removeprefix(f"{x}.") for x in above if path.startswith(f"{x}.")), path)


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
    made = _before_settling(value)
    return _last(made.func) if isinstance(made, ast.Call) else ""


def _settled(value: ast.expr) -> str:
    """The name of what is set up: ``vae`` of ``vae.to(device).eval()``; none of a new object."""
    named = _before_settling(value)
    return "" if isinstance(named, ast.Call) else ast.unparse(named)


def _before_settling(value: ast.expr) -> ast.expr:
    """What methods that only set a model up are called on."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in SETTLING:
            break
        value = value.func.value
    return value


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
    """Whether a statement only prepares the model of that name, or a part of it."""
    match statement:
        case ast.Assign(targets=[one], value=ast.Call() as value):
            return _is_of(one, target) and ast.unparse(one) == _settled(value)
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[given])) if name in PARTS:
            return _is_of(given, target)
        case ast.Expr(value=ast.Call() as value):
            return f"{_settled(value)}.".startswith(f"{target}.")
        case ast.For(iter=ast.Call(func=ast.Attribute(value=owner, attr="modules"))):
            return _is_of(owner, target) and "layer" in ast.unparse(statement.target)
    return False


def _is_of(node: ast.expr, target: str) -> bool:
    return f"{ast.unparse(node)}.".startswith(f"{target}.")


def is_part_of(build: Build, others: list[Build], kinds: set[str]) -> bool:
    """Whether a model is built inside another one that is called too, and so belongs to it."""
    owner = build.source.enclosing_class(build.statement)
    rest = [each for each in others if each is not build]
    return owner is not None and bool(rest) and owner.name in kinds
