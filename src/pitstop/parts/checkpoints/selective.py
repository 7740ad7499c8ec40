"""Checkpoints where they cost least: a budget of memory decides which blocks compute twice.

Why all or nothing is dear: a checkpoint frees what a block keeps for its backward pass, and pays
with its forward pass once more, about a third of a training step if all blocks do so. But bytes and
milliseconds are not in proportion: attention that writes its scores holds much and is soon computed
again, products hold little and take long. With half of the memory most of the time comes back.

What is done: in the first step every block is checkpointed, and each is measured, its bytes as
autograd saves them and its milliseconds. From the next step on those keep their activations that
bring the most time for the bytes, as far as there is room; the others compute them again. A block
that is met later is measured in its first step, and all is decided anew.

The numbers are those of torch's own checkpoint, which puts random generators back: equal to the
last bit with and without, dropout included. Blocks with BatchNorm are left alone, since their
running averages would be updated twice.

Not supported: a budget for several GPUs at once. The plain twin is the model itself.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pitstop import internals
from pitstop.parts.blocks import Undo, repeated_blocks, wrap
from pitstop.parts.checkpoints.choose import Block, Room, keeping
from pitstop.parts.checkpoints.measure import Measured, device_bytes, in_use_bytes

Function = Callable[..., Any]
GIB = 2**30


@dataclass(slots=True)
class _Round:
    """What the steps have shown so far."""

    blocks: dict[Hashable, Block] = field(default_factory=dict)
    new: set[Hashable] = field(default_factory=set)  # those that are being measured
    kept: frozenset[Hashable] = frozenset()
    is_open: bool = False  # the backward pass of what was measured has not come yet
    in_use_bytes: int = 0  # at most, at the ends of checkpointed blocks


class Checkpoints:
    """Decides for each call whether it is checkpointed; ``str()`` of it says what it decided."""

    def __init__(self, room: Room | None = None, original: Function = checkpoint) -> None:
        self._room = room or Room()
        self._checkpoint = original  # torch's own, whatever it is replaced by meanwhile
        self._seen = _Round()

    def __call__(self, function: Function, *given: Any, **named: Any) -> Any:
        """Call ``function``, and keep or compute again what its backward pass needs."""
        if not torch.is_grad_enabled() or internals.backward_pass() != -1:
            return function(*given, **named)
        key = _key(function, given)
        self._decide()
        if key in self._seen.kept:
            return function(*given, **named)
        if key not in self._seen.blocks or key in self._seen.new:
            return self._measured(key, function, given, named)
        return self._checkpointed(function, given, named)

    def __str__(self) -> str:
        if self._seen.new or not self._seen.blocks:
            return "blocks are measured in their first step"
        blocks = self._seen.blocks
        every, kept = list(blocks.values()), [blocks[each] for each in self._seen.kept]
        held, ours = (sum(each.held_bytes for each in some) / GIB for some in (every, kept))
        spent, spared = (sum(each.ms for each in some) for some in (every, kept))
        return (
            f"{len(kept)} of {len(every)} blocks keep {ours:.3g} of {held:.3g} GiB, which spares "
            f"{spared:.1f} of {spent:.1f} ms"
        )

    @property
    def blocks(self) -> dict[Hashable, Block]:
        """What was measured."""
        return dict(self._seen.blocks)

    @property
    def kept(self) -> frozenset[Hashable]:
        """The blocks that keep what they need."""
        return self._seen.kept

    def _checkpointed(
        self, function: Function, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        return self._checkpoint(function, *given, use_reentrant=False, **named)

    def _measured(
        self, key: Hashable, function: Function, given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        watched = Measured(function, _weights(_owner(function)))
        result = self._checkpointed(watched, given, named)
        seen = self._seen
        block = seen.blocks.get(key, Block())
        seen.blocks[key] = block.plus(watched.held_bytes, watched.ms)
        seen.new.add(key)
        seen.in_use_bytes = max(seen.in_use_bytes, in_use_bytes())
        self._watch(result)
        return result

    def _watch(self, result: Any) -> None:
        """The round ends with the backward pass of any of its blocks."""
        self._seen.is_open = True
        for each in internals.tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.requires_grad:
                each.register_hook(self._backward)
                return

    def _backward(self, _: torch.Tensor) -> None:
        self._seen.is_open = False

    def _decide(self) -> None:
        """At the first call behind the backward pass of what was measured."""
        seen = self._seen
        if seen.is_open or not seen.new:
            return
        seen.new.clear()
        room = self._room.bytes(seen.blocks.values(), seen.in_use_bytes, device_bytes)
        seen.kept = keeping(seen.blocks, room)


class Selective:
    """The blocks of one model; call it to undo."""

    def __init__(self, checkpoints: Checkpoints, undos: list[Undo]) -> None:
        self.checkpoints = checkpoints
        self._undos = undos

    def __str__(self) -> str:
        return str(self.checkpoints)

    def __call__(self) -> None:
        """Undo: the model keeps all that its backward pass needs."""
        while self._undos:
            self._undos.pop()()


def selective_checkpoints(
    model: nn.Module,
    keep: float | None = None,
    keep_bytes: int | None = None,
    peak_bytes: int | None = None,
) -> Selective:
    """Checkpoint those repeated blocks of ``model`` that are cheapest to compute twice, in place.

    The others keep what they need: so much of what all of them would hold (``keep``, 0 to 1), so
    many bytes, or as much as leaves the GPU's memory below ``peak_bytes`` (by default 85 % of it).
    Call the result to undo it; ``str()`` of it says what it decided.
    """
    checkpoints = Checkpoints(Room(keep, keep_bytes, peak_bytes))

    def around(call: Function, block: nn.Module, *given: Any, **named: Any) -> Any:
        if not block.training or torch.compiler.is_compiling():
            return call(*given, **named)
        return checkpoints(call, *given, **named)

    return Selective(checkpoints, [wrap(each, around) for each in worth_checkpointing(model)])


def worth_checkpointing(model: nn.Module) -> list[nn.Module]:
    """Repeated blocks that may run twice: those with BatchNorm would update its averages twice."""
    return [
        block
        for block in repeated_blocks(model)
        if not any(isinstance(each, internals.BatchNorm) for each in block.modules())
    ]


def _key(function: Function, given: tuple[Any, ...]) -> Hashable:
    """What tells one block from another: the module, the method, and the shapes it is given."""
    shapes = tuple(each.shape for each in given if isinstance(each, torch.Tensor))
    owner, code = _owner(function), getattr(function, "__code__", None)
    return id(code or function) if owner is None else id(owner), code, shapes


def _owner(function: Function) -> nn.Module | None:
    """The module that is called, whose method it is, or which a function has in its closure."""
    while isinstance(function, partial):
        function = function.func
    cells = (each.cell_contents for each in getattr(function, "__closure__", None) or ())
    found = (getattr(each, "__self__", each) for each in (function, *cells))
    return next((each for each in found if isinstance(each, nn.Module)), None)


def _weights(owner: nn.Module | None) -> list[torch.Tensor]:
    return [*owner.parameters(), *owner.buffers()] if owner else []
