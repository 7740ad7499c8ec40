"""PIT207 device-compared-with-string."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import replace
from pitstop.scan.source import Source

TYPES = {"cpu", "cuda", "mps", "xpu", "meta"}  # an index, "cuda:0", is another question


@rule("PIT207", worth="small")
def device_compared_with_string(source: Source) -> Iterator[Finding]:
    """A device is compared with a string, which is never equal.

    `torch.device("cuda") == "cuda"` is false: the branch meant for the GPU is never taken.
    The type of a device is a string. The fix is unsafe because the branch then runs.

    Bad:
        def mix(frames):
            if frames.device == "cuda":
                torch.cuda.synchronize()

    Good:
        def mix(frames):
            if frames.device.type == "cuda":
                torch.cuda.synchronize()
    """
    for compare in source.nodes(ast.Compare):
        match compare:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                side = _device_side(source, left, right) or _device_side(source, right, left)
            case _:
                continue
        if side is not None:
            device = side.args[0] if isinstance(side, ast.Call) else side
            edit = replace(source, side, f"{source.text_of(device)}.type")
            yield source.finding(compare, fix=Fix("Compare the type", (edit,)))


def _device_side(source: Source, side: ast.expr, text: ast.expr) -> ast.expr | None:
    """The side that is a device, or ``str(x.device)``, if the other is the name of a type."""
    if not isinstance(text, ast.Constant) or text.value not in TYPES:
        return None
    match side:
        case ast.Name() | ast.Attribute():
            return side if source.kind_of(side) == "device" else None
        case ast.Call(func=ast.Name("str"), args=[ast.Attribute(attr="device") as device]):
            # A tensor on a GPU says "cuda:0", one on the CPU says "cpu".
            on_gpu = text.value == "cuda" and source.kind_of(device.value) == "tensor"
            return side if on_gpu else None
    return None
