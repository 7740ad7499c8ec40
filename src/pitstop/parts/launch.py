"""Launching Triton kernels with little CPU time.

Triton looks at every argument of every call to pick the compiled variant, asks the driver about
every tensor and calls its launch hooks: 18 microseconds for a kernel of 15 arguments. A ``Launch``
is made once per signature (shapes, strides, types, device) and goes straight to the compiled
kernel, with bare addresses and without hooks.
"""

from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib.util import find_spec
from operator import or_
from typing import Any

import torch

from pitstop import internals

HAS_TRITON = find_spec("triton") is not None
KERNEL_TYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
ALIGNMENT = 16  # bytes; other addresses take other variants, and the slow way to them
SIGNATURES = 4096  # kept per kernel: far more than one process meets; it only stops a leak
Compiled = tuple[Any, Any, Any]  # what runs a kernel, its handle on the device, its metadata


@dataclass(slots=True, eq=False)
class Launch:
    """One kernel with its grid and numbers: all of a launch but the tensors.

    The tensors of every call must have the same types and be on ``device`` (an index; -1 for
    Triton's interpreter): whoever keeps a ``Launch`` keeps one per signature.
    """

    kernel: Any
    grid: tuple[int, int, int]
    warps: int
    device: int
    numbers: tuple[Any, ...]
    compiled: Compiled | None = None  # set by the first call, in one piece: threads may race for it

    def __call__(self, *tensors: torch.Tensor | None) -> None:
        """Run on torch's current stream of the device."""
        if self.device >= 0 and self.device != internals.current_device():
            with torch.cuda.device(self.device):
                self(*tensors)
            return
        addresses = [0 if each is None else each.data_ptr() for each in tensors]
        aligned = not reduce(or_, addresses) % ALIGNMENT
        compiled = self.compiled
        if aligned and compiled is not None:
            run, function, metadata = compiled
            stream = internals.current_stream(self.device)
            hooks = (None, None, None)
            run(*self.grid, stream, function, metadata, *hooks, *addresses, *self.numbers)
            return
        made = self.kernel[self.grid](*tensors, *self.numbers, num_warps=self.warps)
        if (
            aligned and made is not None and internals.launch_is_known()
        ):  # the interpreter makes nothing
            self.compiled = (made.run, made.function, made.packed_metadata)


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    warps: int,
    key: Any,
    tensors: tuple[torch.Tensor | None, ...],
    *numbers: Any,
) -> None:
    """Run ``kernel`` on the device of its first tensor, for callers that keep no ``Launch``.

    ``key`` must tell apart all calls that differ in a tensor's type.
    """
    device = tensors[0].get_device()  # type: ignore[union-attr]
    _kept(kernel, grid, warps, device, numbers, key)(*tensors)


@lru_cache(maxsize=SIGNATURES)
def _kept(
    kernel: Any,
    grid: tuple[int, int, int],
    warps: int,
    device: int,
    numbers: tuple[Any, ...],
    _key: Any,
) -> Launch:
    return Launch(kernel, grid, warps, device, numbers)


def index_of(device: torch.device) -> int:
    """What ``Launch`` calls the device of a tensor."""
    return -1 if device.index is None else device.index
