"""Around: small questions about a node's neighbourhood that several rules ask."""

import ast
from collections.abc import Iterator

from pitstop.scan.source import Source


def tests_around(source: Source, node: ast.AST) -> Iterator[str]:
    """The tests of the ``if`` blocks that ``node`` is in, as written, from the inside out."""
    child, above = node, source.parent(node)
    while above is not None:
        if isinstance(above, ast.If) and child is not above.test:
            yield source.text_of(above.test)
        child, above = above, source.parent(above)


def tensor_calls(source: Source, *names: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls ``torch.log(x)`` and ``x.log()``, each with x."""
    functions = source.calls(*(f"torch.{name}" for name in names))
    for call in dict.fromkeys([*functions, *source.method_calls(*names)]):
        if source.name_of(call.func).startswith("torch."):
            value = source.argument(call, "input", 0)
        else:
            value = call.func.value if isinstance(call.func, ast.Attribute) else None
        if value is not None:
            yield call, value
