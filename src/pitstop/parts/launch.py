"""Launching Triton kernels with little CPU time.

Triton looks at every argument of every call to pick the compiled variant, asks the driver about
every tensor and calls its launch hooks: 18 microseconds for a kernel of 15 arguments. A key that
the caller vouches for goes straight to the compiled kernel, with bare addresses and without hooks.
"""

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch

HAS_TRITON = find_spec("triton") is not None
KERNEL_TYPES = frozenset((torch.float32, torch.bfloat16, torch.float16))
ALIGNMENT = 16  # bytes; other addresses take other variants, and the slow way to them
VARIANTS = 4096  # far more than one process meets; the bound only stops a leak


@lru_cache(maxsize=VARIANTS)
def _variant(_kernel: Any, _device: int, _key: Any) -> list[Any]:
    """Where the compiled kernel of these traits is kept once there is one."""
    return []


def launch(
    kernel: Any,
    grid: tuple[int, int, int],
    warps: int,
    key: Any,
    tensors: tuple[torch.Tensor | None, ...],
    *numbers: Any,
) -> None:
    """Run ``kernel`` on the device of its first tensor, on torch's current stream.

    ``key`` must tell apart all calls that differ in a tensor's type, in ``warps`` or in a number.
    """
    device = tensors[0].get_device()  # type: ignore[union-attr]
    if device >= 0 and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            launch(kernel, grid, warps, key, tensors, *numbers)
        return
    addresses = [0 if each is None else each.data_ptr() for each in tensors]
    bits = 0
    for address in addresses:
        bits |= address
    if bits % ALIGNMENT:
        kernel[grid](*tensors, *numbers, num_warps=warps)
        return
    variant = _variant(kernel, device, key)
    if variant:
        run, function, metadata = variant
        stream = torch._C._cuda_getCurrentRawStream(device)
        run(*grid, stream, function, metadata, None, None, None, *addresses, *numbers)
        return
    compiled = kernel[grid](*tensors, *numbers, num_warps=warps)
    if compiled is not None:  # the interpreter compiles nothing
        variant += (compiled.run, compiled.function, compiled.packed_metadata)
