"""Kinds: what a value certainly is, from assignments, annotations and well-known functions."""

import ast
from typing import TYPE_CHECKING, Any

from pitstop.scan.scopes import Binding, reaching
from pitstop.scan.vocabulary import (
    ANNOTATIONS,
    CALL_KINDS,
    CONFIG_NAMES,
    DTYPES,
    METHOD_KINDS,
    SIZE_METHODS,
    TENSOR_ATTRIBUTES,
    TENSOR_EVIDENCE,
    TENSOR_METHODS,
    TORCH_NOT_TENSOR,
    Kind,
    torch_call_kind,
)

if TYPE_CHECKING:
    from pitstop.scan.source import Source

CONSTANTS: dict[type, Kind] = {
    str: "str",
    bytes: "unknown",
    bool: "bool",
    int: "int",
    float: "float",
    type(None): "none",
}
DISPLAYS: dict[type[ast.AST], Kind] = {
    ast.List: "list",
    ast.ListComp: "list",
    ast.Tuple: "tuple",
    ast.Dict: "dict",
    ast.DictComp: "dict",
    ast.Set: "set",
    ast.SetComp: "set",
    ast.JoinedStr: "str",
}
NUMBERS = ("int", "float", "number", "bool")
CLASS_KINDS: tuple[tuple[str, Kind], ...] = (
    ("torch.nn.Module", "module"),
    ("torch.utils.data.DataLoader", "dataloader"),
    ("torch.utils.data.Dataset", "dataset"),
    ("torch.optim.Optimizer", "optimizer"),
)


def kind_of(source: "Source", node: ast.AST) -> Kind:
    """What ``node`` certainly is; remembered, and "unknown" while it is being found out."""
    if node not in source.kinds:
        source.kinds[node] = "unknown"  # a name that is defined by itself ends here
        try:
            source.kinds[node] = _kind(source, node)
        except RecursionError:  # a sum of a thousand terms, in generated code
            return "unknown"
    return source.kinds[node]


def _kind(source: "Source", node: ast.AST) -> Kind:  # noqa: PLR0911 one per shape
    match node:
        case ast.Constant(value=value):
            return CONSTANTS.get(type(value), "unknown")
        case ast.Name():
            return _name(source, node)
        case ast.Attribute():
            return _attribute(source, node)
        case ast.Call():
            return _call(source, node)
        case ast.Subscript():
            return _subscript(source, node)
        case ast.IfExp(body=first, orelse=second):
            return _agreed([kind_of(source, first), kind_of(source, second)])
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return kind_of(source, value)
        case _:
            return DISPLAYS.get(type(node)) or _operation(source, node)


def _operation(source: "Source", node: ast.AST) -> Kind:
    match node:
        case ast.BinOp(left=left, right=right):
            return _binary(kind_of(source, left), kind_of(source, right), node.op)
        case ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.UnaryOp(operand=operand):
            return kind_of(source, operand)
        case ast.Compare(left=left, comparators=[right]):
            identity = isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
            sides = {kind_of(source, left), kind_of(source, right)}
            return "bool" if identity else _compared(sides)
        case ast.BoolOp(values=values):
            return _agreed([kind_of(source, each) for each in values])
    return "unknown"


def _binary(left: Kind, right: Kind, operator: ast.operator) -> Kind:
    """A tensor wins over numbers; two equal kinds stay what they are."""
    pair = {left, right}
    if "tensor" in pair and not pair & {"str", "list", "dict", "ndarray"}:
        return "tensor"
    if pair <= {"int"}:
        return "float" if isinstance(operator, ast.Div) else "int"
    if pair <= set(NUMBERS):
        return "number"
    if left == "str" and isinstance(operator, ast.Mod | ast.Add):
        return "str"
    return left if left == right and isinstance(operator, ast.Add) else "unknown"


def _compared(sides: set[Kind]) -> Kind:
    """Arrays compare item by item; what is unknown may be one, unless it is held to a text."""
    if sides & {"str", "none"}:
        return "bool"  # a tensor is no text either: Python falls back to identity
    if "tensor" in sides:
        return "tensor"
    return "unknown" if sides & {"unknown", "ndarray"} else "bool"


def _agreed(kinds: list[Kind]) -> Kind:
    """The one kind that all of them are."""
    return kinds[0] if kinds and len(set(kinds)) == 1 else "unknown"


def _name(source: "Source", node: ast.Name) -> Kind:
    if source.name_of(node) != node.id:  # imported
        return _known_object(source.name_of(node))
    found = [each for each in reaching(source, node) if each.how != "augment"]
    kind = _agreed([_binding_kind(source, each) for each in found])
    open_ = kind == "unknown" or kind in NUMBERS  # to which a tensor may have been added
    return "tensor" if open_ and _has_evidence(source, node) else kind


def _binding_kind(source: "Source", binding: Binding) -> Kind:
    if binding.annotation is not None:
        return _annotated(source, binding.annotation)
    value = binding.value
    if value is None or binding.nested or binding.how in ("parameter", "other", "with"):
        return "unknown"
    if binding.how == "assign":
        return kind_of(source, value)
    if binding.how == "loop":
        return _item_kind(source, value, binding.index)
    if isinstance(value, ast.Tuple) and binding.index is not None:
        item = value.elts[binding.index] if binding.index < len(value.elts) else None
        starred = any(isinstance(each, ast.Starred) for each in value.elts)
        return kind_of(source, item) if item is not None and not starred else "unknown"
    return "int" if kind_of(source, value) == "shape" else "unknown"


def _item_kind(source: "Source", iterable: ast.expr, index: int | None) -> Kind:
    """What a loop's target is: counters are certain, and rows of a tensor are tensors."""
    called = source.name_of(iterable.func) if isinstance(iterable, ast.Call) else ""
    if (called, index) in (("range", None), ("enumerate", 0)):
        return "int"
    return "tensor" if index is None and kind_of(source, iterable) == "tensor" else "unknown"


def _annotated(source: "Source", annotation: ast.expr) -> Kind:
    match annotation:
        case ast.Constant(value=str(text)):
            name = text.strip().removesuffix(" | None")
            return ANNOTATIONS.get(name, "unknown")
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _annotated(source, left)
        case ast.Subscript(value=outer, slice=inner):
            name = source.name_of(outer)
            if name == "typing.Optional":
                return _annotated(source, inner)
            return ANNOTATIONS.get(name, "unknown")
    name = source.name_of(annotation)
    return ANNOTATIONS.get(name) or _class_kind(source, name)


def _attribute(source: "Source", node: ast.Attribute) -> Kind:
    name = source.name_of(node)
    if name.startswith("torch."):
        return _known_object(name)
    assigned = [each for each in reaching(source, node) if each.how != "augment"]
    if assigned:
        return _agreed([_binding_kind(source, each) for each in assigned])
    base = kind_of(source, node.value)
    if base == "tensor":
        return TENSOR_ATTRIBUTES.get(node.attr, "unknown")
    if base == "device":
        return "str" if node.attr == "type" else "unknown"
    return _attribute_of_unknown(source, node, base)


def _attribute_of_unknown(source: "Source", node: ast.Attribute, base: Kind) -> Kind:
    """``x.device`` is a device on all that has one, except on objects of options."""
    owner = source.name_of(node.value).rpartition(".")[2]
    if node.attr not in ("device", "is_cuda", "requires_grad") or base not in ("unknown", "module"):
        return "unknown"
    if not owner or owner.lower() in CONFIG_NAMES:
        return "unknown"
    return TENSOR_ATTRIBUTES[node.attr]


def _known_object(name: str) -> Kind:
    """``torch.float16`` and the like, which are values and not calls."""
    return "dtype" if name in DTYPES else "unknown"


def _call(source: "Source", call: ast.Call) -> Kind:
    name = source.name_of(call.func)
    if name in CALL_KINDS:
        return CALL_KINDS[name]
    if name.startswith(("torch.", "torchvision.")):
        return torch_call_kind(name)
    if isinstance(call.func, ast.Attribute):
        method = _method(source, call.func)
        if method != "unknown":
            return method
    if isinstance(call.func, ast.Name | ast.Attribute) and kind_of(source, call.func) == "module":
        return _layer_result(source, call.func)
    if name and source.project.returns_tensor(source.path, name):
        return "tensor"
    return _class_kind(source, name) if name else "unknown"


def _method(source: "Source", func: ast.Attribute) -> Kind:
    if func.attr in METHOD_KINDS:
        return METHOD_KINDS[func.attr]
    base = kind_of(source, func.value)
    if base == "tensor":
        return _tensor_method(source, func)
    if base == "module" and func.attr in ("to", "cuda", "cpu", "eval", "train", "half", "float"):
        return "module"
    if base == "str" and func.attr in ("format", "lower", "upper", "strip", "join", "replace"):
        return "str"
    return "unknown"


def _tensor_method(source: "Source", func: ast.Attribute) -> Kind:
    """``x.size(0)`` is a number, ``x.size()`` a shape, ``x.max(dim)`` a pair."""
    call = source.parent(func)
    arguments = isinstance(call, ast.Call) and bool(call.args or call.keywords)
    if func.attr == "size":
        return "int" if arguments else "shape"
    if func.attr in ("max", "min", "median"):
        return "unknown" if arguments else "tensor"
    if func.attr in SIZE_METHODS:
        return "int"
    return "tensor" if func.attr in TENSOR_METHODS else "unknown"


def _layer_result(source: "Source", layer: ast.expr) -> Kind:
    """Layers and losses of torch.nn return a tensor; a module of the project returns anything."""
    for value in source.assigned(layer) or ():
        name = source.name_of(value.func) if isinstance(value, ast.Call) else ""
        last = name.rpartition(".")[2]
        if not name.startswith("torch.nn.") or last in TORCH_NOT_TENSOR:
            return "unknown"
    return "tensor" if source.assigned(layer) else "unknown"


def _class_kind(source: "Source", name: str) -> Kind:
    """A class of the project, or of a library, by what it derives from."""
    if not source.project.knows_class(name):
        return "unknown"
    for base, kind in CLASS_KINDS:
        if source.project.derives(name, base) or source.project.derives(
            f"{source.module}.{name}", base
        ):
            return kind
    return "unknown"


def _subscript(source: "Source", node: ast.Subscript) -> Kind:
    base = kind_of(source, node.value)
    if base == "shape":
        return "shape" if isinstance(node.slice, ast.Slice) else "int"
    return base if base in ("tensor", "ndarray", "str") else "unknown"


def _has_evidence(source: "Source", node: ast.Name) -> bool:
    """A name whose value calls ``.backward()`` in this function is a tensor; numpy has none."""
    scope = source.enclosing_function(node)
    for call in source.method_calls(*TENSOR_EVIDENCE):
        assert isinstance(call.func, ast.Attribute)
        owner = call.func.value
        same = isinstance(owner, ast.Name) and owner.id == node.id
        if same and source.enclosing_function(call) is scope and same_value(source, node, owner):
            return True
    return False


def same_value(source: "Source", one: ast.AST, other: ast.AST) -> bool:
    """Whether nothing is bound to a name between two uses of it."""
    assert isinstance(one, ast.Name)
    assert isinstance(other, ast.Name)
    first = {each.target for each in reaching(source, one)}
    return bool(first) and first == {each.target for each in reaching(source, other)}


def literal(source: "Source", node: ast.AST | None) -> Any:
    """The constant value of an expression; names are followed through assignments that agree."""
    match node:
        case None:
            return None
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name() | ast.Attribute():
            values = source.assigned(node) or []
            found = {each.value for each in values if isinstance(each, ast.Constant)}
            return found.pop() if len(found) == 1 == len(values) else None
    return None
