"""Watch: a dispatch mode that counts operations by kind, line, module call and shapes."""

import sys
from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Any, TypeVar, cast

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry

from pitstop.profile.lines import user_line

RANGE = "pitstop:"  # prefix of the profiler ranges that tie kernels to operations

Key = tuple[Any, ...]
Method = TypeVar("Method", bound=Callable[..., Any])


def quiet(method: Method) -> Method:
    """Let a method fail without a trace: what we cannot describe must still run."""

    @wraps(method)
    def guarded(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception:  # noqa: BLE001 never in the user's way
            return None

    return cast("Method", guarded)


class Watch(TorchDispatchMode):
    """Everything the operations of one step reveal. Nothing here changes what they compute."""

    def __init__(self, named: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._named = named  # whether each operation runs in a range that the profiler sees
        self._found: dict[Key, list[float]] = {}
        self._order: dict[Key, int] = {}
        self._open: list[int] = []
        self._handles: list[Any] = []
        self._paths: dict[int, str] = {}
        self.roots: list[Any] = []
        self.calls: list[list[Any]] = []
        self.born: list[tuple[Key, int, StorageWeakRef]] = []

    def start(self) -> None:
        """Enter the mode and listen to module calls."""
        self._handles = [
            register_module_forward_pre_hook(self._before_module),
            register_module_forward_hook(self._after_module),
        ]
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Leave the mode and the modules as they were."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation as it would have run without us, then look at it."""
        kwargs = kwargs or {}
        key = self._key(func, args)
        begun = perf_counter()
        if self._named:
            with torch.profiler.record_function(f"{RANGE}{self._order.get(key)}"):
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        self._count(key, perf_counter() - begun, func, args, kwargs, result)
        return result

    def operations(self, device_us: dict[int, float]) -> list[list[Any]]:
        """Name, line, module call, shapes, calls, µs, device µs, bytes and FLOPs; dearest first."""
        rows = []
        for key, (calls, seconds, moved, flops) in self._found.items():
            name, line, call, shapes = key
            device = device_us.get(self._order[key])
            micros = round(seconds * 1e6, 1)
            rows.append(
                [name, *line, call, shapes, int(calls), micros, device, int(moved), int(flops)]
            )
        return sorted(rows, key=lambda row: -max(row[7], row[8] or 0))

    @quiet
    def _key(self, func: Any, args: Any) -> Key:
        """What operations are counted by; each has a number, which names its profiler range."""
        line = user_line(sys._getframe(3))  # past this method, its guard and the dispatch
        key = (str(func), line, self._open[-1] if self._open else -1, _shapes(args))
        self._order.setdefault(key, len(self._order))
        return key

    @quiet
    def _count(
        self, key: Key, seconds: float, func: Any, args: Any, kwargs: Any, result: Any
    ) -> None:
        total = self._found.setdefault(key, [0, 0.0, 0, 0])
        total[0] += 1
        total[1] += seconds
        total[2] += _bytes(func, args, result)
        total[3] += _flops(func, args, kwargs, result)
        self._remember(key[1], result)

    def _remember(self, line: Key, result: Any) -> None:
        """Keep a weak reference to each new storage, to see which outlive their step."""
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor) and tensor._base is None:
                storage = tensor.untyped_storage()
                self.born.append((line, storage.nbytes(), StorageWeakRef(storage)))

    @quiet
    def _before_module(self, module: Any, args: Any) -> None:
        if not self._open and module not in self.roots:
            self.roots.append(module)
            self._paths |= {id(each): path for path, each in module.named_modules()}
        inputs = [each for each in tree_iter(args) if isinstance(each, torch.Tensor)]
        path = self._paths.get(id(module)) or type(module).__name__
        line = user_line(sys._getframe(3))
        parent = self._open[-1] if self._open else -1
        identity = [[each.data_ptr(), _version(each)] for each in inputs]
        frozen = not any(each.requires_grad for each in module.parameters())
        kind = type(module).__name__
        self._open.append(len(self.calls))
        self.calls.append([path, kind, *line, parent, _shapes(inputs), identity, frozen])

    def _after_module(self, *_: Any) -> None:
        if self._open:
            self._open.pop()


def _version(tensor: torch.Tensor) -> int:
    """How often the tensor was written to; inference tensors do not count that."""
    return -1 if tensor.is_inference() else tensor._version


def _shapes(arguments: Any) -> str:
    """Shapes and types of the tensors among the arguments: ``bf16[1,512,64,64] f32[512]``."""
    found = [each for each in tree_iter(arguments) if isinstance(each, torch.Tensor)]
    return " ".join(
        f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}@{each.device.type}"
        for each in found
    ).replace(", ", ",")


def _bytes(func: Any, arguments: Any, result: Any) -> int:
    """Bytes of all tensors read and written, each once; a view moves none."""
    if any(each.alias_info and not each.alias_info.is_write for each in func._schema.returns):
        return 0
    tensors = [each for each in tree_iter((arguments, result)) if isinstance(each, torch.Tensor)]
    return sum(each.numel() * each.element_size() for each in tensors)


def _flops(func: Any, arguments: Any, options: Any, result: Any) -> int:
    """Floating-point operations of matrix products, convolutions and attention; 0 for the rest."""
    count = flop_registry.get(func._overloadpacket)
    return int(count(*arguments, **options, out_val=result)) if count else 0


def still_alive(born: list[tuple[Key, int, StorageWeakRef]]) -> list[list[Any]]:
    """Lines whose tensors outlived their step, with the bytes they hold, most first."""
    held: dict[Key, int] = {}
    for line, count, storage in born:
        if not storage.expired():
            held[line] = held.get(line, 0) + count
    return [[*line, count] for line, count in sorted(held.items(), key=lambda item: -item[1])]
