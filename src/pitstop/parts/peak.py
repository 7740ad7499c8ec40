"""Peak memory of one call: the allocator's own count on a GPU, live tensors on the CPU."""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pitstop import internals


class Peak(NamedTuple):
    """What a call returned, the most bytes it held at once, and those it left behind."""

    result: Any
    most_bytes: int
    left_bytes: int  # the result and whatever else the call keeps


def peak_of(run: Callable[[], Any], device: torch.device) -> Peak:
    """Run once and count the bytes beyond what was there before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = run()
        after = torch.cuda.memory_allocated(device)
        return Peak(result, torch.cuda.max_memory_allocated(device) - before, after - before)
    with _LiveTensors() as live:
        result = run()
    return Peak(result, live.most, live.bytes)


class _LiveTensors(internals.TorchDispatchMode):
    """Counts the bytes of storages that operations create, until they are freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.most = 0
        self.seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        given = {internals.storage_key(each.untyped_storage()) for each in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for each in _tensors(result):
            storage = each.untyped_storage()
            if internals.storage_key(storage) not in given | self.seen:
                self._count(storage)
        return result

    def _count(self, storage: Any) -> None:
        key, size = internals.storage_key(storage), storage.nbytes()
        self.seen.add(key)
        self.bytes += size
        self.most = max(self.most, self.bytes)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.bytes -= size


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [each for each in internals.tree_leaves(tree) if isinstance(each, torch.Tensor)]
