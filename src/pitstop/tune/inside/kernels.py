"""Kernels: autograd functions that launch kernels of their own.

A kernel that is handed the address of a tensor sees neither its type nor its layout. It reads what
it was written for, float32 row by row, and misreads or refuses the rest, often in favour of a
simpler function that takes over in silence. So a change of types or layouts gives such functions
what they got before. Functions of libraries are left alone, since a patch cannot reach them, as are
those that save what they were given elsewhere, in ``setup_context``.
"""

import sys
from pathlib import Path

from pitstop.profile.source.lines import origin_of

ADDRESS = "data_ptr("  # CuPy, ctypes and the like are handed what it returns
CASTS = "custom_fwd"
METHODS = ("forward", "backward")
ELSEWHERE = "setup_context"


def launches_kernels(function: type) -> bool:
    """Whether the user's file that an autograd function is defined in hands out addresses."""
    return ELSEWHERE not in vars(function) and ADDRESS in _file_of(function)


def minds_autocast(function: type) -> bool:
    """Whether its author has thought of autocast."""
    return CASTS in _file_of(function)


def _file_of(function: type) -> str:
    path = getattr(sys.modules.get(function.__module__), "__file__", None)
    if not path or origin_of(path) != "user":
        return ""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
