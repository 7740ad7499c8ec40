"""Tensor reads: expressions for which Python needs a tensor's numbers."""

import ast
from collections.abc import Iterator

from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source
from pitstop.scan.uploads import uploads
from pitstop.scan.vocabulary import TENSOR_METHODS

METHODS = ("item", "cpu", "tolist", "nonzero")
OF_MODULES = {"to", "cuda", "cpu", "float", "half", "double", "bfloat16"}  # a module has them too
CPU_DEPTH = 6  # names between a read and `.cpu()`; a loop may bind a name by itself
MASK_DEPTH = 3  # valid = near & far, near = depth < 9
MASKS = {
    *("torch.isnan", "torch.isinf", "torch.isfinite", "torch.logical_and", "torch.logical_or"),
    *("torch.logical_not", "torch.isin", "torch.isclose"),
}
MADE_ON_CPU = {
    *("torch.rand", "torch.randn", "torch.randint", "torch.randperm", "torch.tensor"),
    *("torch.from_numpy", "torch.linspace", "torch.arange", "torch.zeros", "torch.ones"),
}


def tensor_reads(source: Source) -> Iterator[tuple[ast.AST, ast.expr, str]]:
    """Where numbers of what may be a tensor are read: the place, the tensor, in words."""
    for call in source.method_calls(*METHODS):
        assert isinstance(call.func, ast.Attribute)
        options = {each.arg for each in call.keywords} - {"as_tuple"}  # of nonzero
        if not call.args and not options and not has_read(call.func.value):
            yield call, call.func.value, f"`.{call.func.attr}()`"
    yield from _implicit_reads(source)


def is_method_read(source: Source, call: ast.Call) -> bool:
    """Whether the owner of the method is a tensor, as far as one can tell."""
    assert isinstance(call.func, ast.Attribute)
    owner, method = call.func.value, call.func.attr
    kind = source.kind_of(owner)
    if kind == "tensor":
        return True
    if method == "nonzero":
        return isinstance(owner, ast.Compare)
    if isinstance(owner, ast.Call) and source.name_of(owner.func).startswith("numpy."):
        return False
    return kind == "unknown" and (method == "item" or _is_result(owner))


def has_read(node: ast.expr) -> bool:
    """Whether a read of its own is inside, which is reported in its place."""
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return bool(names & {*METHODS, "numpy"})


def _implicit_reads(source: Source) -> Iterator[tuple[ast.AST, ast.expr, str]]:
    """Numbers, texts and branches made of what may be a tensor."""
    for call in source.calls("float", "int", "bool"):
        if len(call.args) == 1:
            yield call, call.args[0], f"`{source.name_of(call.func)}()` of a tensor"
    for masked in source.nodes(ast.Subscript):
        if _is_masked(source, masked) and not _is_filled(source, masked):
            proof = masked if source.kind_of(masked) == "tensor" else masked.slice
            yield masked, proof, "A mask as index"
    for branch in source.nodes(ast.If, ast.While, ast.IfExp):
        if not _is_plain(branch.test):
            yield branch.test, branch.test, "A branch on a tensor"
    for shown in source.nodes(ast.FormattedValue):
        yield shown.value, shown.value, "Printing a tensor"


def is_mask(  # noqa: PLR0911 one per shape
    source: Source, index: ast.expr, depth: int = MASK_DEPTH
) -> bool:
    """Whether an index is a tensor of truth values: how many are true, only the GPU knows."""
    match index:
        case ast.Compare(
            ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]
        ):
            return source.kind_of(index) == "tensor"
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return is_mask(source, inner, depth)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return is_mask(source, left, depth) or is_mask(source, right, depth)
        case ast.Call(func=ast.Attribute(attr="bool", value=inner)):
            return source.kind_of(inner) == "tensor"
        case ast.Call(func=function):
            return source.name_of(function) in MASKS
        case ast.Name() if depth:
            made = source.assigned(index) or []
            return bool(made) and all(is_mask(source, each, depth - 1) for each in made)
    return False


def _is_masked(source: Source, masked: ast.Subscript) -> bool:
    """Whether a mask is the index; what is inverted for a tensor can be nothing else."""
    match masked.slice:
        case ast.UnaryOp(op=ast.Invert(), operand=ast.Name()) if (
            source.kind_of(masked.value) == "tensor"
        ):
            return True
    return is_mask(source, masked.slice)


def _is_filled(source: Source, masked: ast.Subscript) -> bool:
    """Whether ``x[mask] = 0`` fills: a kernel does that without knowing how many there are."""
    above = source.parent(masked)
    if not isinstance(masked.ctx, ast.Store) or not isinstance(above, ast.Assign):
        return isinstance(masked.ctx, ast.Del)
    made = above.value
    named = source.name_of(made.func) if isinstance(made, ast.Call) else ""
    return named == "torch.tensor" or source.kind_of(made) != "tensor"


def _is_plain(test: ast.expr) -> bool:
    """Whether a test is no tensor, at a glance: most are ``x is None``, ``not x``, ``x in y``."""
    match test:
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.In() | ast.NotIn(), *_]):
            return True
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return True
        case ast.Call(func=ast.Name("isinstance" | "hasattr" | "len" | "callable")):
            return True
    return False


def _is_result(node: ast.expr) -> bool:
    """Whether it is the result of a method that only tensors have."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in TENSOR_METHODS - OF_MODULES
    return False


def is_on_cpu(  # noqa: PLR0911 one per shape
    source: Source, node: ast.AST, depth: int = CPU_DEPTH
) -> bool:
    """Whether a tensor was made on the CPU or fetched from the GPU: reading it waits for nobody."""
    match node:
        case ast.Compare(left=left, comparators=[right, *_]) | ast.BinOp(left=left, right=right):
            return is_on_cpu(source, left, depth) or is_on_cpu(source, right, depth)
        case ast.Subscript(slice=ast.Constant(value="info" | "meta" | "metadata")):
            return True  # texts and counts beside a batch, which stay where the loader made them
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return is_on_cpu(source, inner, depth)
        case ast.Call(func=ast.Attribute(attr="cpu")):
            return True
        case ast.Call() if uploads(source, node):
            return False
        case ast.Call(func=function, args=arguments):
            name = source.name_of(function)
            if name in MADE_ON_CPU:
                return source.argument(node, "device") is None and not source.open_ended(node)
            of_torch = name.startswith("torch.") and bool(arguments)
            return is_on_cpu(source, arguments[0] if of_torch else function, depth)
        case ast.Name() if depth:
            made = [each for each in reaching(source, node) if each.how != "augment"]
            plain = all(each.how in ("assign", "loop") and each.value for each in made)
            values = [each.value for each in made if each.value]
            return bool(made) and plain and all(is_on_cpu(source, v, depth - 1) for v in values)
    return False


def is_tensor(source: Source, node: ast.expr) -> bool:
    """Whether a value is a tensor, if only because its shape or dtype is read beside it."""
    if source.kind_of(node) == "tensor":
        return True
    function, name = source.enclosing_function(node), source.name_of(node)
    parts = [each for each in source.nodes(ast.Attribute) if each.attr in ("shape", "dtype")]
    near = [each for each in parts if source.enclosing_function(each) is function]
    return bool(name) and any(source.name_of(each.value) == name for each in near)
