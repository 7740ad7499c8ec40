"""Attention: the softmax between two matrix products, as it is written out by hand."""

import ast

from pitstop.scan.source import Source

PRODUCTS = {"torch.matmul", "torch.bmm", "torch.einsum", "torch.baddbmm", "einsum"}
SOFTMAX = {"torch.softmax", "torch.nn.functional.softmax"}
DEPTH = 8  # reassignments between the product of queries and keys and that with the values


def operands(source: Source, product: ast.AST) -> list[ast.expr]:
    """What a matrix product multiplies; empty when it is none."""
    if isinstance(product, ast.BinOp):
        return [product.left, product.right] if isinstance(product.op, ast.MatMult) else []
    if isinstance(product, ast.Call):
        if source.name_of(product.func) in PRODUCTS:
            return [each for each in product.args if not isinstance(each, ast.Constant)]
        if isinstance(product.func, ast.Attribute) and product.func.attr in ("matmul", "bmm"):
            return [product.func.value, *product.args]
    return []


def softmax_behind(source: Source, node: ast.expr, depth: int = DEPTH) -> ast.Call | None:
    """The softmax a value comes from, through dropout, casts and other shapes."""
    if depth == 0:
        return None
    if isinstance(node, ast.Call):
        if softmax_input(source, node) is not None:
            return node
        return softmax_behind(source, passed_through(node), depth - 1)
    values = source.assigned(node) or [] if isinstance(node, ast.Name) else []
    found = [softmax_behind(source, each, depth - 1) for each in values]
    return next((each for each in found if each is not None), None)


def softmax_input(source: Source, call: ast.Call) -> ast.expr | None:
    """What a softmax is taken of; ``None`` when the call is no softmax."""
    name = source.name_of(call.func)
    if name in SOFTMAX or (name.startswith("self.") and "softmax" in name.lower()):
        return call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "softmax":
        return call.func.value if name not in SOFTMAX else None
    if isinstance(call.func, ast.Call) and source.name_of(call.func.func) == "torch.nn.Softmax":
        return call.args[0] if call.args else None
    return None


def passed_through(call: ast.Call) -> ast.expr:
    """What a cast, reshape or dropout is applied to: a method's owner, a function's first."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    module = isinstance(owner, ast.Name) and owner.id in ("self", "F", "torch", "nn", "einops")
    return call.args[0] if call.args and (owner is None or module) else owner or call.func


def products_behind(source: Source, node: ast.expr, depth: int = DEPTH) -> set[ast.expr]:
    """The products of two activations that a value comes from, scaled, biased or masked."""
    if depth == 0:
        return set()
    if len(operands(source, node)) > 1:
        return {node}
    if isinstance(node, ast.BinOp):
        behind = [node.left, node.right]
    elif isinstance(node, ast.Call):
        behind = [passed_through(node)]
    else:
        behind = source.assigned(node) or [] if isinstance(node, ast.Name) else []
    return {found for each in behind for found in products_behind(source, each, depth - 1)}


def written_out(source: Source) -> dict[ast.Call, ast.expr]:
    """Each softmax between two matrix products, with the scores it is taken of."""
    found: dict[ast.Call, ast.expr] = {}
    calls = [*source.calls(*PRODUCTS), *source.method_calls("matmul", "bmm")]
    for product in [*source.nodes(ast.BinOp), *calls]:
        for operand in operands(source, product):
            softmax = softmax_behind(source, operand)
            scores = softmax_input(source, softmax) if softmax else None
            if softmax and scores is not None and products_behind(source, scores):
                found[softmax] = scores
    return found


def is_shared(source: Source, softmax: ast.Call, scores: ast.expr) -> bool:
    """Whether another softmax is taken of the same scores: fused, both would compute them."""
    made = products_behind(source, scores)
    others = [each for each in written_out(source).items() if each[0] is not softmax]
    return any(made & products_behind(source, each) for _, each in others)
