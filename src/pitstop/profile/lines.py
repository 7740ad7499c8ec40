"""Lines: which line of the user's own code is behind what torch is doing now."""

import sys
import sysconfig
from functools import lru_cache
from types import FrameType

_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def user_line(frame: FrameType | None) -> tuple[str, int, str]:
    """File, line and function of the innermost frame of the user's, else of any but torch's."""
    library: tuple[str, int, str] | None = None
    while frame is not None:
        code = frame.f_code
        origin = _origin(code.co_filename)
        if origin == "user":
            return code.co_filename, frame.f_lineno, code.co_name
        if origin == "library":
            library = code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return library or ("", 0, "")


@lru_cache(maxsize=4096)
def _origin(path: str) -> str:
    """``user``, ``library`` or ``hidden`` (torch, Pitstop and frozen modules)."""
    if path.startswith("<") or "/torch/" in path.replace("\\", "/") or _is_ours(path):
        return "hidden"
    return "library" if path.startswith(_LIBRARIES) else "user"


def _is_ours(path: str) -> bool:
    return path.startswith(sys.modules["pitstop.profile"].__path__[0])
