"""Import one package and print what it was built for, as JSON on the last line.

Run as a script in a process of its own (``python probe.py NAME``), so that a package that
raises, hangs or crashes at import is a fact about that package. Imports nothing of Pitstop.
"""

import importlib
import json
import sys
import time
from types import ModuleType
from typing import Any

MARK = "pitstop-probe:"  # packages print at import; only the line that starts so is ours
OLD_ARCHS = (50, 52, 60, 61, 70, 75, 80, 86, 89, 90)  # of a CuPy too old to ask NVRTC for its own


def main(name: str) -> None:
    """Import ``name`` and print its facts; an import that fails is a fact as well."""
    facts: dict[str, Any] = {}
    started = time.perf_counter()
    try:
        module = importlib.import_module(name)
        facts["import_seconds"] = round(time.perf_counter() - started, 3)
        facts["version"] = str(getattr(module, "__version__", ""))
        facts |= READERS.get(name, _nothing_more)(module)
    except BaseException as error:  # noqa: BLE001 packages also raise SystemExit at import
        facts["error"] = _last_line(error)
    sys.stdout.write(f"\n{MARK}{json.dumps(facts)}\n")


def _nothing_more(module: ModuleType) -> dict[str, Any]:  # noqa: ARG001 same shape as its siblings
    return {}


def _read_torch(torch: ModuleType) -> dict[str, Any]:
    # torch.cuda.get_arch_list() is empty where the driver is broken; the build's own flags are not.
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: "")()
    cudnn = torch.backends.cudnn.version() if torch.version.cuda else None
    return {
        "cuda": torch.version.cuda or "",
        "hip": getattr(torch.version, "hip", None) or "",
        "archs": (flags or "").split() if torch.version.cuda else [],
        "cudnn": _dotted(cudnn) if cudnn else "",
    }


def _read_torchvision(_: ModuleType) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    number = int(torch.ops.torchvision._cuda_version())  # 12080, or -1 for a CPU build
    return {"cuda": f"{number // 1000}.{number % 1000 // 10}" if number > 0 else ""}


def _read_cupy(cupy: ModuleType) -> dict[str, Any]:
    if cupy.cuda.runtime.is_hip:
        return {"hip": str(cupy.cuda.runtime.runtimeGetVersion())}
    nvrtc = importlib.import_module("cupy_backends.cuda.libs.nvrtc")
    compiler = importlib.import_module("cupy.cuda.compiler")
    major, minor = nvrtc.getVersion()  # raises where NVRTC is not on the machine
    # CuPy asks NVRTC for machine code of this architecture at most, whatever the GPU is.
    most = int(getattr(compiler, "_get_max_compute_capability", lambda: 0)())
    supported = getattr(nvrtc, "getSupportedArchs", lambda: OLD_ARCHS)()
    archs = [f"sm_{arch}" for arch in supported if int(arch) <= most]
    return {"cuda": f"{major}.{minor}", "jit_archs": archs}


def _read_xformers(_: ModuleType) -> dict[str, Any]:
    library = importlib.import_module("xformers._cpp_lib")
    failure = getattr(library, "_cpp_library_load_exception", None)
    build = getattr(getattr(library, "_build_metadata", None), "torch_version", "")
    return {"error": _last_line(failure) if failure else "", "built_for_torch": str(build)}


READERS = {
    "torch": _read_torch,
    "torchvision": _read_torchvision,
    "cupy": _read_cupy,
    "xformers": _read_xformers,
}


def _dotted(cudnn: int) -> str:
    """91002 as 9.10.2; before cuDNN 9 the major digit had three digits after it, not four."""
    thousand = 10_000 if cudnn >= 90_000 else 1_000
    return f"{cudnn // thousand}.{cudnn % thousand // 100}.{cudnn % 100}"


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1])
