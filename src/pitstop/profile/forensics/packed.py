"""Packed: what a node keeps for its backward pass, read without running a hook of the script.

To unpack what a hook has packed may mean to compute it again, as checkpointing does. Since torch
2.7 a saved tensor tells whether it has such a hook. Before, Python's own profiling stops the hook
as it is called, before its first line. There is one profiler to a thread: where the script has its
own, nothing is read.
"""

import sys
from types import FrameType
from typing import Any

from pitstop import internals

TELLS = hasattr(internals.SavedTensor, "unpack_hook")


class _HookCalledError(Exception):
    """A hook of the script was about to run."""


def is_readable() -> bool:
    """Whether saved tensors can be read here and now."""
    return TELLS or sys.getprofile() is None


def unpacked(node: Any, name: str) -> Any:
    """What a node keeps under a name; None where a hook has packed it, or may have."""
    packed: Any = getattr(node, f"_raw_saved_{name}")
    if isinstance(packed, tuple):  # several tensors under one name
        return None
    if TELLS:
        return getattr(node, f"_saved_{name}") if packed.unpack_hook is None else None
    return read(node, f"_saved_{name}")


def read(node: Any, name: str) -> Any:
    """An attribute; None where a function in Python would have to run to get it."""
    if sys.getprofile() is not None:
        return None
    sys.setprofile(_stop)
    try:
        return getattr(node, name)
    except _HookCalledError:
        return None
    finally:
        sys.setprofile(None)


def _stop(_: FrameType, event: str, __: Any) -> None:
    if event == "call":
        raise _HookCalledError
