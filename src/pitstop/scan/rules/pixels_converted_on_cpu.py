"""PIT216 pixels-converted-on-cpu."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source
from pitstop.scan.uploads import uploads

WHITE = (255, 255.0)
BYTES = ("byte", "uint8")


@rule("PIT216", worth="small")
def pixels_converted_on_cpu(source: Source) -> Iterator[Finding]:
    """Pixels travel between CPU and GPU as floats, and are converted on the CPU.

    A byte is enough for a channel of a pixel: as floats four times as much is copied while Python
    waits, and the CPU scales millions of numbers that the GPU scales in passing. Send bytes and
    divide them there; clamp, scale and turn results into bytes before they are fetched.

    Bad:
        for frame in frames:
            with torch.no_grad():
                result = model(frame)
            writer.write((result.cpu().numpy() * 255).astype("uint8"))

    Good:
        for frame in frames:
            with torch.no_grad():
                result = model(frame)
            writer.write((result * 255).byte().cpu().numpy())
    """
    fetched = ((call, _is_scaled(source, call)) for call in source.method_calls("cpu"))
    sent = ((call, _is_sent_scaled(source, call)) for call in source.method_calls("to", "cuda"))
    for calls, message in (
        (fetched, "Pixels are fetched as floats, and made bytes on the CPU"),
        (sent, "Pixels are scaled on the CPU, and sent to the GPU as floats"),
    ):
        for call, converts in calls:
            hot = source.hot(call) if converts else None
            if hot is None or hot.guarded or hot.kind != "frame":
                continue
            if not is_rare(source, call, hot):
                yield source.finding(call, f"{message} ({hot.reason}).", confidence="suspected")


def _is_scaled(source: Source, fetch: ast.Call) -> bool:
    """Whether an expression makes bytes of what it has fetched: ``x.cpu().numpy() * 255``."""
    if any(name in source.text_of(fetch) for name in BYTES):
        return False
    child: ast.AST = fetch
    above = source.parent(child)
    while isinstance(above, ast.Attribute | ast.Subscript | ast.Call | ast.BinOp):
        if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult):
            return any(_is_white(each) for each in (above.left, above.right))
        if isinstance(above, ast.Call) and child is not above.func:
            return False
        if isinstance(above, ast.Attribute) and above.attr == "astype":
            cast = source.parent(above)
            kind = source.argument(cast, "dtype", 0) if isinstance(cast, ast.Call) else None
            return kind is not None and "uint8" in source.text_of(kind)
        child, above = above, source.parent(above)
    return False


def _is_sent_scaled(source: Source, call: ast.Call) -> bool:
    """Whether what goes to the GPU was divided by 255 before, in the same expression."""
    if not uploads(source, call) or not isinstance(call.func, ast.Attribute):
        return False
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) and _is_white(each.right)
        for each in ast.walk(call.func.value)
    )


def _is_white(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in WHITE
