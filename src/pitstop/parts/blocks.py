"""Blocks of a model, and functions around the calls of one module."""

from collections.abc import Callable
from typing import Any
from weakref import ref

from torch import nn

from pitstop import internals

TORCHS_BLOCKS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)  # made of layers, too

Around = Callable[..., Any]  # around(call, module, *arguments, **options) -> what call returns
Undo = Callable[[], None]


def wrap(module: nn.Module, around: Around) -> Undo:
    """Put ``around(call, module, ...)`` around the calls of one module, and of that one alone.

    Nothing here keeps the module alive: scripts that build a model in each step free it, too.
    """
    before = internals.compiled_call(module)
    reference = ref(module)

    def slot(*arguments: Any, **options: Any) -> Any:
        living = reference()
        assert living is not None
        return around(before or internals.call_of(living), living, *arguments, **options)

    def undo() -> None:
        if (living := reference()) is not None:
            vars(living)[internals.COMPILED_CALL] = before

    vars(module)[internals.COMPILED_CALL] = slot  # Fabric sets attributes on what it wraps, too
    return undo


def repeated_blocks(module: nn.Module) -> list[nn.Module]:
    """The outermost inner modules whose class occurs more than once: the blocks of a network.

    torch's own layers do not count; they are what blocks are made of.
    """
    kinds = [type(each) for each in module.modules() if _is_block(each)]
    blocks: list[nn.Module] = []
    inside: set[int] = set()
    for each in module.modules():
        if id(each) in inside or each is module or kinds.count(type(each)) < 2:
            continue
        blocks.append(each)
        inside |= {id(part) for part in each.modules()}
    return blocks


def _is_block(module: nn.Module) -> bool:
    if type(module).__module__.startswith("torch.nn.") and not isinstance(module, TORCHS_BLOCKS):
        return False
    return next(module.parameters(), None) is not None
