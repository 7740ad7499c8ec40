"""Facts: what one file contributes to the knowledge about its project. Plain and savable."""

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pitstop.scan.hot import place_of
from pitstop.scan.loops import HotKind, turns_gradients_off
from pitstop.scan.names import origin_of
from pitstop.scan.settings import Setting
from pitstop.scan.vocabulary import COMMON_METHODS

if TYPE_CHECKING:
    from pitstop.scan.source import Source

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

# Methods that a framework calls once per step or sample; only in a class that derives from one.
HOT_METHODS: dict[str, HotKind] = {
    "forward": "step",
    "training_step": "step",
    "train_step": "step",
    "validation_step": "validation",
    "test_step": "validation",
    "predict_step": "validation",
}
HOT_FUNCTION = re.compile(r"^(?:training|train|train_one|optimi[sz]ation)_(?:step|batch)$")
LIBRARIES = ("torch", "numpy", "lightning", "pytorch_lightning", "accelerate", "transformers")
OPTION_OBJECTS = re.compile(
    r"(?:^|_)(?:args|cfg|config|conf|opt|opts|options|hparams|flags|params)$"
)


@dataclass(frozen=True, slots=True)
class CallFact:
    """One call of something that may be a function of the project."""

    target: str  # "models.vae.encode", "self.encode", "encode", ".encode" for any object's
    line: int
    kind: str = ""  # of the hot loop around it in its function; empty: as hot as the function
    reason: str = ""
    guarded: bool = False
    owner: str = ""  # "train_meter" of ``train_meter.update(x)``, for ".update"


@dataclass(frozen=True, slots=True)
class FunctionFact:
    """One function, or the module's own code (empty name), and whom it calls."""

    name: str  # "Encoder.forward"
    line: int
    kind: str = ""  # set when the function is hot by its name and class
    reason: str = ""
    calls: tuple[CallFact, ...] = ()
    differentiates: bool = False  # calls backward or asks for gradients itself


@dataclass(frozen=True, slots=True)
class ClassFact:
    """One class and its bases, by full name."""

    name: str
    bases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """A global switch of torch that code sets: ``torch.backends.cudnn.benchmark = True``."""

    name: str
    value: str  # as written
    path: str
    line: int
    start: int  # offsets of the whole statement or call
    end: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """All that other files may need to know of one file."""

    path: str
    module: str
    functions: tuple[FunctionFact, ...] = ()
    classes: tuple[ClassFact, ...] = ()
    names: tuple[tuple[str, int], ...] = ()  # library names used, with the first line
    methods: tuple[str, ...] = ()  # x.method(...) called on anything
    keywords: tuple[str, ...] = ()  # f(keyword=...)
    keys: tuple[str, ...] = ()  # option names read: cfg["key"], cfg.key, "--key"
    switches: tuple[Switch, ...] = ()
    settings: tuple[Setting, ...] = ()
    tensor_functions: tuple[str, ...] = ()  # that return a tensor, whatever they are given
    imports: tuple[str, ...] = ()  # "models.vae", "models.vae.Encoder", "models.vae.*"
    newest_torch: tuple[int, int] | None = None  # that the project says it runs with


def read_facts(source: "Source") -> FileFacts:
    """The facts of one parsed file."""
    if source.settings:
        return FileFacts(source.path, source.module, settings=source.settings)
    calls = source.nodes(ast.Call)
    methods = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    keywords = {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}
    return FileFacts(
        source.path,
        source.module,
        tuple(_functions(source)),
        tuple(_classes(source)),
        tuple(sorted(_library_names(source).items())),
        tuple(sorted(methods)),
        tuple(sorted(keywords)),
        tuple(sorted(set(_keys(source)))),
        tuple(_switches(source)),
        tensor_functions=tuple(_tensor_functions(source)),
        imports=tuple(sorted(_imports(source))),
    )


def _functions(source: "Source") -> Iterator[FunctionFact]:
    calls = _calls_by_function(source)
    asking = _asking_for_gradients(source)
    yield FunctionFact("", 0, calls=tuple(calls.get(None, ())), differentiates=None in asking)
    for function in source.functions:
        kind, reason = _root(source, function)
        name = source.qualified_name(function)
        found = tuple(calls.get(function, ()))
        yield FunctionFact(name, function.lineno, kind, reason, found, function in asking)


def _asking_for_gradients(source: "Source") -> set[Function | None]:
    calls = [
        *source.method_calls("backward", "manual_backward"),
        *source.calls("torch.autograd.grad", "torch.autograd.backward"),
    ]
    return {source.enclosing_function(call) for call in calls}


def _calls_by_function(source: "Source") -> dict[Function | None, list[CallFact]]:
    found: dict[Function | None, list[CallFact]] = {}
    for call in source.nodes(ast.Call):
        target = _target(source, call.func)
        if not target:
            continue
        place = place_of(source, call)
        heat = place.heat
        kind, reason = (heat.kind, heat.reason) if heat else ("", "")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = source.name_of(owner).rpartition(".")[2] if owner and target[0] == "." else ""
        fact = CallFact(target, call.lineno, kind, reason, place.guarded, name)
        found.setdefault(place.function, []).append(fact)
    return found


def _target(source: "Source", function: ast.expr) -> str:
    """The name to look a call up by; empty when it cannot be a function of the project."""
    if isinstance(function, ast.Name):
        name = source.name_of(function)
        foreign = hasattr(builtins, name) or name.startswith(LIBRARIES)
        return "" if foreign else name
    if not isinstance(function, ast.Attribute):
        return ""
    root = function.value
    if isinstance(root, ast.Name) and root.id in ("self", "cls"):
        return f"self.{function.attr}"
    name = source.name_of(function)
    first = name.partition(".")[0]
    if isinstance(root, ast.Name) and source.name_of(root) != root.id:
        return "" if name.startswith(LIBRARIES) else name
    if first in LIBRARIES or function.attr in COMMON_METHODS or function.attr.startswith("__"):
        return ""
    return f".{function.attr}"


def _root(source: "Source", function: Function) -> tuple[str, str]:
    """What makes a function hot by itself, and how to say so."""
    owner = source.parent(function)
    if not isinstance(owner, ast.ClassDef):
        hot = HOT_FUNCTION.search(function.name)
        return ("step", f"{function.name} is a step by its name") if hot else ("", "")
    bases = [source.name_of(base) for base in owner.bases]
    derived = any(base != "object" for base in bases)
    if derived and function.name in HOT_METHODS:
        off = turns_gradients_off(source, function.decorator_list)
        kind = "validation" if off and function.name != "forward" else HOT_METHODS[function.name]
        return kind, f"{function.name} of {owner.name}"
    dataset = any("Dataset" in each for each in [owner.name, *bases])
    if function.name == "__getitem__" and dataset:
        return "sample", f"__getitem__ of {owner.name}"
    return "", ""


def _tensor_functions(source: "Source") -> Iterator[str]:
    """Functions of which every return is certainly a tensor, as far as this file tells."""
    returned: dict[Function, list[ast.expr | None]] = {}
    for each in source.nodes(ast.Return):
        function = source.enclosing_function(each)
        plain = function is not None and isinstance(source.parent(function), ast.Module)
        if function is not None and plain and not _is_extra(source, function, each):
            returned.setdefault(function, []).append(each.value)
    alone = source.by_itself()
    for function, values in returned.items():
        if all(value is not None and alone.kind_of(value) == "tensor" for value in values):
            yield function.name


def _is_extra(source: "Source", function: Function, leave: ast.Return) -> bool:
    """Whether only a caller who asks gets it: ``if full: return ret, cs``, where full=False."""
    block = source.parent(leave)
    if not isinstance(block, ast.If) or not isinstance(block.test, ast.Name):
        return False
    given = function.args
    defaults = dict(zip(reversed(given.args), reversed(given.defaults), strict=False))
    for parameter, default in defaults.items():
        if parameter.arg == block.test.id:
            return isinstance(default, ast.Constant) and default.value is False
    return False


def _classes(source: "Source") -> Iterator[ClassFact]:
    for each in source.nodes(ast.ClassDef):
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in each.bases]
        names = tuple(source.name_of(base) for base in bases)
        yield ClassFact(source.qualified_name(each), names)


def _library_names(source: "Source") -> dict[str, int]:
    """Every dotted name that starts with an import of a library of the field, with its line."""
    found: dict[str, int] = {}
    known = {key for key, name in source.aliases.items() if name.startswith(LIBRARIES)}
    for name in source.nodes(ast.Name):
        if name.id not in known:
            continue
        whole: ast.AST = name
        while isinstance(above := source.parent(whole), ast.Attribute):
            whole = above
        found.setdefault(source.name_of(whole), name.lineno)
    return found


def _imports(source: "Source") -> set[str]:
    """What is imported, but for the libraries of the field."""
    found = {alias.name for node in source.nodes(ast.Import) for alias in node.names}
    for node in source.nodes(ast.ImportFrom):
        origin = origin_of(node, source.path)
        found |= {f"{origin}.{alias.name}" for alias in node.names}
    return {name for name in found if not name.startswith(LIBRARIES)}


def _keys(source: "Source") -> Iterator[str]:
    """Names of options that the code reads or declares."""
    for subscript in source.nodes(ast.Subscript):
        if isinstance(subscript.slice, ast.Constant) and isinstance(subscript.slice.value, str):
            yield subscript.slice.value
    for call in source.method_calls("get", "pop", "add_argument") + source.calls("getattr"):
        for argument in call.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value.lstrip("-").replace("-", "_")
    for attribute in source.nodes(ast.Attribute):
        owner = attribute.value
        last = getattr(owner, "attr", "") or getattr(owner, "id", "")
        if isinstance(last, str) and OPTION_OBJECTS.search(last):
            yield attribute.attr


def _switches(source: "Source") -> Iterator[Switch]:
    for assign in source.nodes(ast.Assign):
        for target in assign.targets:
            if not isinstance(target, ast.Attribute):
                continue
            name = source.name_of(target)
            if name.startswith("torch."):
                yield _switch(source, name, assign.value, assign)
    for call in source.nodes(ast.Call):
        name = source.name_of(call.func)
        if name.startswith(("torch.set_", "torch.use_deterministic", "torch.backends.")):
            yield _switch(source, name, call.args[0] if call.args else call, call)


def _switch(source: "Source", name: str, value: ast.AST, whole: ast.AST) -> Switch:
    line = getattr(whole, "lineno", 0)
    return Switch(name, source.text_of(value), source.path, line, *source.extent(whole))
