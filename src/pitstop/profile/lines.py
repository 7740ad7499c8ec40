"""Lines: which line of the user's own code is behind what torch is doing now."""

import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType

Place = tuple[str, int, str]  # file, line and function

OUR_ROOMS = {"profile": "hidden", "tune": "hidden", "workloads": "user"}  # the systems we bring
INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")  # of the user's home, of PYTHONPATH
NOWHERE: Place = ("", 0, "")
ENGINE = "_engine_run_backward"  # the function of torch.autograd that starts a backward pass

_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def user_line(frame: FrameType | None, until: str = "") -> Place:
    """File, line and function of the innermost frame of the user's, else of any but torch's.

    With ``until`` only frames inside torch's function of that name are looked at.
    """
    library: Place | None = None
    while frame is not None and frame.f_code.co_name != until:
        code = frame.f_code
        origin = origin_of(code.co_filename)
        if origin == "user":
            return code.co_filename, line_of(frame), code.co_name
        if origin == "library":
            library = code.co_filename, line_of(frame), code.co_name
        frame = frame.f_back
    return library or NOWHERE


def line_of(frame: FrameType) -> int:
    """The line that it is at, or begins with: bytecode that a compiler wrote may have none."""
    return frame.f_lineno or frame.f_code.co_firstlineno


def asking_library(frame: FrameType | None) -> str:
    """The package that the user's code has called to be here, such as ``transformers``."""
    library = ""
    while frame is not None:
        origin = origin_of(frame.f_code.co_filename)
        if origin == "user":
            return library
        if origin == "library":
            library = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        frame = frame.f_back
    return library


def lines_within(frame: FrameType | None, inside: str, most: int) -> list[Place]:
    """The user's lines, innermost first, up to the second call of torch's function ``inside``.

    The first one is what was called from these lines; the second is what their function runs in.
    """
    found: list[Place] = []
    calls = 0
    while frame is not None and calls < 2 and len(found) < most:
        code = frame.f_code
        origin = origin_of(code.co_filename)
        if origin == "user":
            found.append((code.co_filename, line_of(frame), code.co_name))
        elif origin == "hidden" and code.co_name == ENGINE:
            break
        calls += origin == "hidden" and code.co_name == inside
        frame = frame.f_back
    return found


def runs_backward(frame: FrameType | None) -> bool:
    """Whether a backward pass was started by this thread's own Python code."""
    while frame is not None:
        if frame.f_code.co_name == ENGINE:
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def origin_of(path: str) -> str:
    """``user``, ``library`` or ``hidden`` (torch, Pitstop and frozen modules)."""
    if path.startswith("<") or room_of("torch", path):
        return "hidden"
    if room := room_of("pitstop", path):
        return OUR_ROOMS.get(room, "library")
    return "library" if path.startswith(_LIBRARIES) or INSTALLED.search(path) else "user"


@lru_cache(maxsize=4096)
def room_of(package: str, path: str) -> str:
    """The folder or file of a package that a path leads to, wherever that is installed."""
    file = Path(path)
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        if file.is_relative_to(folder):
            return file.relative_to(folder).parts[0]
    return ""
