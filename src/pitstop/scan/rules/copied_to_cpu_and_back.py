"""PIT215 copied-to-cpu-and-back."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source
from pitstop.scan.uploads import uploads

WRAPS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor"}
CPU_TYPES = {"torch.FloatTensor", "torch.LongTensor", "torch.DoubleTensor", "torch.ByteTensor"}
DEPTH = 3  # array = x.cpu().numpy(); array = blur(array); torch.from_numpy(array).to(device)


@rule("PIT215")
def copied_to_cpu_and_back(source: Source) -> Iterator[Finding]:
    """A tensor goes to the CPU and back to the GPU in every step.

    The way out waits until the GPU has finished, the way back copies from pageable memory, and
    between them the GPU has nothing to do. What is done on the CPU has a counterpart in torch, or
    can be done for what was there before the step.

    Bad:
        for batch in train_loader:
            order = model(batch).cpu().argsort().to(device)
            criterion(batch[order]).backward()

    Good:
        for batch in train_loader:
            order = model(batch).argsort()
            criterion(batch[order]).backward()
    """
    for call in source.method_calls("to", "cuda"):
        if not uploads(source, call):
            continue
        hot = source.hot(call)
        if hot is None or hot.guarded or hot.kind not in ("step", "frame"):
            continue
        assert isinstance(call.func, ast.Attribute)
        left = _left_the_gpu(source, call.func.value, DEPTH)
        if left is not None and not is_rare(source, call, hot):
            where = "" if left.lineno == call.lineno else f" in line {left.lineno}"
            message = f"This comes from the GPU{where}, and goes back to it ({hot.reason})."
            yield source.finding(call, message, confidence="suspected")


def _left_the_gpu(  # noqa: PLR0911 one per shape
    source: Source, value: ast.expr, depth: int
) -> ast.Call | None:
    """The call that has brought a value to the CPU."""
    match value:
        case ast.Call(func=ast.Attribute(attr="cpu", value=owner), args=[]):
            return value if source.kind_of(owner) != "module" else None
        case ast.Call(func=ast.Attribute(attr="type"), args=[to]) if (
            source.name_of(to) in CPU_TYPES
        ):
            return value
        case ast.Call(func=function, args=[first, *_]) if _is_library(source, function):
            return _left_the_gpu(source, first, depth)
        case ast.Call(func=ast.Attribute(value=owner)) | ast.Subscript(value=owner):
            return _left_the_gpu(source, owner, depth)
        case ast.BinOp(left=left, right=right):
            return _left_the_gpu(source, left, depth) or _left_the_gpu(source, right, depth)
        case ast.Name() if depth:
            made = source.assigned(value) or []
            found = [_left_the_gpu(source, each, depth - 1) for each in made]
            return found[0] if len(found) == 1 else None
    return None


def _is_library(source: Source, function: ast.expr) -> bool:
    name = source.name_of(function)
    computes = name.startswith(("numpy.", "cv2.", "scipy.")) and "random" not in name
    return computes or name in WRAPS
