"""Extensions that torch compiled on this machine and keeps in its cache, and their GPU code.

``torch.utils.cpp_extension.load`` builds for the GPUs it sees and finds the library again next
time, also after the GPU was exchanged or the home folder is seen from another machine.
"""

import os
import sys
from pathlib import Path

from pitstop.core.machine import Package
from pitstop.doctor.builds import CACHED
from pitstop.doctor.fatbins import library_archs, sorted_archs


def read_extensions(torch_cuda: str, cache: Path | None = None) -> tuple[Package, ...]:
    """The cached extensions of this Python and this CUDA that hold GPU code."""
    if not torch_cuda:
        return ()
    folder = cache or extension_cache(torch_cuda)
    suffix = "pyd" if sys.platform == "win32" else "so"
    try:
        libraries = sorted(folder.glob(f"*/*.{suffix}"))
    except OSError:
        return ()
    found = [(library, sorted_archs(library_archs(library))) for library in libraries]
    return tuple(
        Package(f"{CACHED}{library.parent.name}", cuda=torch_cuda, archs=archs)
        for library, archs in found
        if archs
    )


def extension_cache(torch_cuda: str) -> Path:
    """The folder that torch keeps the extensions of this Python and this CUDA in."""
    if given := os.environ.get("TORCH_EXTENSIONS_DIR"):
        return Path(given)
    python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    build = f"{python}_cu{torch_cuda.replace('.', '')}"
    if sys.platform == "win32":
        local = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
        return local / "torch_extensions" / "torch_extensions" / "Cache" / build
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/torch_extensions" / build
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "torch_extensions" / build
