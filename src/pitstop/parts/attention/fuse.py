"""Let a model's own attention be computed by whoever is fastest, and take that back.

SwinIR, VRT and HAT write attention out: a product, bias, mask, softmax, dropout, a product. In such
a function of a model's classes the first product hands back scores that wait (``scores.py``), and
where nothing but attention becomes of them, ``window_attention`` computes the whole: our kernel or
torch's fused attention where that was measured to be faster for such shapes, once; else the lines
that were there, to the last bit.

A function keeps its name, place, source and class. Its code is exchanged as a whole, and only where
the source that is read compiles to the very code that runs.
"""

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torch import nn

from pitstop.parts.attention.pattern import NAME, rewritten
from pitstop.parts.attention.scores import scores
from pitstop.parts.group_norm.fuse_group_norm import Exchanged, Step, Undo

FOREIGN = ("torch", "pitstop", "builtins", "numpy", "einops")  # nothing is written out in these


def fuse_attention(model: nn.Module) -> Undo:
    """Fuse attention where the classes of ``model`` write it out; call the result to undo that.

    ``str()`` of the result names the functions. Calls with dropout at work, hooks, ``torch.func``,
    ``torch.compile`` or tracing compute what is written.
    """
    steps, record = [], []
    for function in _functions(model):
        code = rewritten(function)
        if code is not None:
            steps.append(_exchange(function, code))
            record.append(Exchanged(f"attention of {function.__qualname__}"))
    return Undo(tuple(steps), tuple(record))


def _exchange(function: FunctionType, code: Any) -> Step:
    before = function.__code__

    def back() -> None:
        function.__code__ = before  # the name stays: another thread may be in that code

    function.__globals__[NAME] = scores
    function.__code__ = code
    return back


def _functions(model: nn.Module) -> Iterator[FunctionType]:
    """Methods of all classes in the model, and functions of their packages that these name."""
    waiting = [
        each for kind in dict.fromkeys(map(type, model.modules())) for each in _methods(kind)
    ]
    met: set[FunctionType] = set()
    while waiting:
        function = waiting.pop(0)
        if function in met:
            continue
        met.add(function)
        waiting += _named_by(function)
        yield function


def _methods(kind: type) -> Iterator[FunctionType]:
    for base in kind.__mro__:
        if _package(base) not in FOREIGN:
            yield from filter(None, map(_plain, vars(base).values()))


def _named_by(function: FunctionType) -> Iterator[FunctionType]:
    for name in function.__code__.co_names:
        found = _plain(function.__globals__.get(name))
        if found is not None and _package(found) == _package(function):
            yield found


def _plain(value: Any) -> FunctionType | None:
    """The function that was written, below what decorates it."""
    while not isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
        inner = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
        if not isinstance(value, FunctionType | staticmethod | classmethod) or inner is None:
            return None
        value = inner
    return value


def _package(named: Any) -> str:
    return str(named.__module__ or "").partition(".")[0]
