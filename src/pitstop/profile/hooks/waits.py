"""Waits: which operations make Python wait for the device, and the calls that do so by name."""

import gc
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.hooks.attempt import leave_no_trace
from pitstop.profile.inspect.tensors import tensors_in
from pitstop.profile.source.lines import Place, user_line

# What Python does next depends on a number, or on a size, that only the device knows.
READS = {
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::equal",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::bincount",
    "aten::repeat_interleave",
    "aten::_linalg_check_errors",
}
BY_INDEX = {"aten::index", "aten::index_put", "aten::index_put_"}
COPIES = {"aten::_to_copy", "aten::copy_", "aten::copy", "aten::_copy_from"}
HOST_CALLS = (  # owner, name, how it is recorded, whether it waits for the device
    (torch.cuda, "synchronize", "torch.cuda.synchronize", True),
    (torch.cuda, "empty_cache", "torch.cuda.empty_cache", True),
    (gc, "collect", "gc.collect", False),
    (torch.Tensor, "tolist", "torch.Tensor.tolist", True),
    (torch.Tensor, "__repr__", "torch.Tensor.__repr__", True),
    (torch.Tensor, "numpy", "torch.Tensor.numpy", False),
)
READERS = ("data_ptr", "__dlpack__")  # hand a tensor's memory to other software

Seen = Callable[[Place, float, Any], None]


def waits(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operation is a synchronisation; a read counts on the CPU too, where it is free."""
    name = internals.schema(func).name
    if name in READS:
        return True
    if name in BY_INDEX:
        return any(each.dtype in (torch.bool, torch.uint8) for each in tensors_in(args[1:2]))
    return name in COPIES and _copy_waits(name, args, kwargs)


def crosses(func: Any, given: Any, result: Any) -> bool:
    """Whether an operation copies from a device to the CPU."""
    if internals.schema(func).name not in COPIES:
        return False
    kinds = {each.device.type for each in tensors_in(given)}
    return bool(kinds - {"cpu"}) and any(each.device.type == "cpu" for each in tensors_in(result))


def _copy_waits(name: str, args: Any, kwargs: Any) -> bool:
    """A copy between devices waits unless it may not, which needs pinned memory on the CPU."""
    if name == "aten::_to_copy":
        source, target = args[0], kwargs.get("device") or args[0].device
        asynchronous = kwargs.get("non_blocking", False)
    else:
        source, target = args[1], args[0].device
        asynchronous = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    if source.device.type == torch.device(target).type:
        return False
    if source.device.type == "cpu":
        return not (asynchronous and source.is_pinned())
    return not asynchronous


def timed(
    original: Callable[..., Any], seen: Seen, counted: Callable[[], float]
) -> Callable[..., Any]:
    """The same function, which tells of each call: line, seconds and arguments.

    ``counted`` are the seconds of all operations so far: those that it runs count by themselves.
    """

    def around(*arguments: Any, **options: Any) -> Any:
        begun = perf_counter() - counted()
        try:
            result = original(*arguments, **options)
        except BaseException as error:
            leave_no_trace(error)
            raise
        seconds = perf_counter() - counted() - begun
        seen(user_line(sys._getframe(1)), seconds, arguments)
        return result

    return around
