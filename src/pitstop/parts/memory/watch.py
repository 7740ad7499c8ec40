"""Watch: write down each block of memory that operations make, until it is freed.

It looks at every operation below autograd, so that what a backward pass makes is seen as well.
Tensors may be fake or real. A block belongs to the module that runs, and to the first line on the
stack that is not torch's; in a backward pass, to those whose operation is differentiated.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.memory.trace import Block, Trace

TORCH = str(Path(torch.__file__).parent) + os.sep
LIFTED = torch.ops.aten.lift_fresh.default
PACKAGE = Path(__file__).parents[2]
OURS = tuple(f"{PACKAGE / room}{os.sep}" for room in ("parts/memory", "memory", "profile"))


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose operation it is."""

    module: str = ""
    line: str = ""


Inside = Callable[[Any, Any, Any], int]


class Watch(internals.TorchDispatchMode):
    """A dispatch mode that fills a ``Trace``."""

    def __init__(self, device: str, inside: Inside = lambda *_: 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace = Trace()
        self._device = device  # "cuda" or "cpu": what lies elsewhere is not counted
        self._inside = inside  # bytes that an operation takes only while it runs
        self._living: dict[int, int] = {}  # storage -> block
        self._modules: list[str] = []
        self._owners: dict[int, Owner] = {}  # sequence number of a node -> who called it
        self._optimizing = False
        self._lock = threading.RLock()  # a backward pass may run in a thread of its own

    def hold(self, tensors: Iterable[Any], kind: str, module: str = "") -> None:
        """Count what was there before the step."""
        for storage in self._storages(list(tensors)):
            if internals.storage_key(storage) not in self._living:
                self._born(storage, Block(storage.nbytes(), "before", "", module, "", kind))

    def hold_model(self, model: nn.Module, prefix: str = "") -> None:
        """Count its weights, buffers and gradients; ``prefix`` names the model."""
        for below, module in model.named_modules():
            where = joined(prefix, below)
            weights = [x for x in internals.own_parameters(module).values() if x is not None]
            self.hold(weights, "parameters", where)
            self.hold(internals.own_buffers(module).values(), "buffers", where)
            self.hold([x.grad for x in weights if x.grad is not None], "gradients", where)

    def name(self, tensor: torch.Tensor, kind: str, module: str) -> None:
        """Say what a block that was made meanwhile has turned out to be."""
        for storage in self._storages(tensor):
            number = self._living.get(internals.storage_key(storage))
            if number is not None and self.trace.blocks[number].kind in {"", "gradients"}:
                self.trace.blocks[number].kind = kind
                self.trace.blocks[number].module = module

    def enter(self, module: str) -> None:
        """Know of a module that it runs already."""
        self._modules.append(module)

    @contextmanager
    def optimizing(self) -> Iterator[None]:
        """What is made meanwhile belongs to an optimizer's step."""
        self._optimizing = True
        try:
            yield
        finally:
            self._optimizing = False

    def follow(self, model: nn.Module, prefix: str = "") -> Callable[[], None]:
        """Know which module runs; call the result to end that. ``prefix`` names the model."""

        def enter(name: str) -> Callable[..., None]:
            def entering(*_: Any) -> None:
                self._modules.append(name)

            return entering

        def leave(*_: Any) -> None:
            if self._modules:
                self._modules.pop()

        hooks: list[Any] = []
        for name, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            hooks.append(
                module.register_forward_pre_hook(enter(joined(prefix, name)), prepend=True)
            )
            hooks.append(module.register_forward_hook(leave, always_call=True))

        def undo() -> None:
            for each in hooks:
                each.remove()

        return undo

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Run it, and count what it has made."""
        kwargs = kwargs or {}
        given = {internals.storage_key(each) for each in self._storages((args, kwargs))}
        result = func(*args, **kwargs)
        if func is LIFTED:
            return result  # ``torch.tensor(...)``: made on the CPU, and copied by another operation
        with self._lock:
            owner, phase = self._owner()
            for storage in self._storages(result):
                key = internals.storage_key(storage)
                if key not in given and key not in self._living:
                    block = Block(storage.nbytes(), phase, str(func), owner.module, owner.line)
                    self._born(storage, block)
            if (size := self._inside(func, args, result)) > 0:
                self._pass(Block(size, phase, str(func), owner.module, owner.line, "workspace"))
        return result

    def _storages(self, tree: Any) -> Iterator[Any]:
        for each in _tensors(tree):
            if each.device.type == self._device:
                yield from _storages(each)

    def _phase(self) -> str:
        if self._optimizing:
            return "optimizer"
        return "forward" if internals.backward_pass() == -1 else "backward"

    def _owner(self) -> tuple[Owner, str]:
        phase = self._phase()
        if phase == "optimizer":
            return Owner(), phase
        if phase == "forward" or self._modules:  # or computed again for a checkpoint
            owner = Owner(self._modules[-1] if self._modules else "", _line())
            self._owners[internals.next_sequence_number() - 1] = owner
            return owner, phase
        node = internals.running_node()
        number = internals.sequence_number(node) if node is not None else -1
        return self._owners.get(number, Owner()), phase

    def _born(self, storage: Any, block: Block) -> None:
        key, number = internals.storage_key(storage), len(self.trace.blocks)
        self.trace.blocks.append(block)
        self.trace.events.append(number)
        self._living[key] = number
        weakref.finalize(storage, self._died, key, number).atexit = False

    def _died(self, key: int, number: int) -> None:
        with self._lock:
            if self._living.get(key) == number:
                del self._living[key]
                self.trace.events.append(~number)
                self.trace.blocks[number].freed = self._phase()

    def _pass(self, block: Block) -> None:
        """Born and dead within one operation, while its inputs and results are there."""
        number = len(self.trace.blocks)
        self.trace.blocks.append(block)
        self.trace.events += [number, ~number]


def joined(prefix: str, name: str) -> str:
    """The path of a module below a model."""
    return f"{prefix}.{name}" if prefix and name else prefix or name


def _line() -> str:
    """The innermost line that is neither torch's nor ours, as ``path:number``."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((TORCH, *OURS, "<")):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    """All in the arguments or results of an operation, which are lists at most."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _tensors(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from _tensors(each)


def _storages(tensor: torch.Tensor) -> list[Any]:
    """The memory behind a tensor: one piece, or those of a sparse one."""
    if tensor.layout == torch.strided:
        return [tensor.untyped_storage()]
    if tensor.layout == torch.sparse_coo:
        return [
            internals.indices(tensor).untyped_storage(),
            internals.values(tensor).untyped_storage(),
        ]
    return []
