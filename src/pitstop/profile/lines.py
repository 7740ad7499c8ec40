"""Lines: which line of the user's own code is behind what torch is doing now."""

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType

Place = tuple[str, int, str]  # file, line and function

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
            return code.co_filename, frame.f_lineno, code.co_name
        if origin == "library":
            library = code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return library or NOWHERE


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
            found.append((code.co_filename, frame.f_lineno, code.co_name))
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
    if path.startswith("<") or "/torch/" in path.replace("\\", "/") or _is_ours(path):
        return "hidden"
    return "library" if path.startswith(_LIBRARIES) else "user"


def _is_ours(path: str) -> bool:
    """Whether a file is of the rooms that run inside scripts; the systems we bring are not."""
    package = Path(sys.modules["pitstop"].__path__[0])
    return path.startswith((str(package / "profile"), str(package / "tune")))
