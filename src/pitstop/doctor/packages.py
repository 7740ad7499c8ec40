"""The packages that decide how fast a GPU runs: which are here, and what they were built for.

Each is imported in a child process of its own. Pitstop's process imports none of them.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pitstop.core.machine import Package
from pitstop.doctor import probe
from pitstop.doctor.fatbins import library_archs, sorted_archs

PROBE_SECONDS = 90.0  # a cold import of torch from a network disk takes up to a minute
PROBES_AT_ONCE = 3  # each may hold a whole torch in memory, about half a gigabyte
ERROR_LENGTH = 300  # characters; a linker's complaint fits, a wall of symbols does not
LIBRARY_SUFFIXES = (".so", ".pyd", ".dll")
TEXT_FIELDS = ("version", "error", "cuda", "hip", "cudnn", "built_for_torch")


@dataclass(frozen=True, slots=True)
class Known:
    """A package we look for: its name, the module to import, what pip may call it."""

    name: str
    module: str
    distributions: tuple[str, ...]
    libraries: tuple[str, ...] = ()  # modules whose compiled libraries hold its device code


KNOWN = (
    Known("torch", "torch", ("torch",)),
    Known("torchvision", "torchvision", ("torchvision",), ("torchvision",)),
    Known("triton", "triton", ("triton", "triton-windows", "pytorch-triton")),
    Known(
        "cupy",
        "cupy",
        ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy-cuda118", "cupy"),
        ("cupy",),
    ),
    Known("xformers", "xformers", ("xformers",), ("xformers",)),
    Known("flash-attn", "flash_attn", ("flash-attn",), ("flash_attn", "flash_attn_2_cuda")),
    Known("gsplat", "gsplat", ("gsplat",), ("gsplat",)),
    Known("bitsandbytes", "bitsandbytes", ("bitsandbytes",), ("bitsandbytes",)),
)


def read_packages(
    known: Iterable[Known] = KNOWN, limit_seconds: float = PROBE_SECONDS
) -> tuple[Package, ...]:
    """Every installed package of ``known``, probed a few at a time."""
    installed = [each for each in known if _installed(each)]
    with ThreadPoolExecutor(PROBES_AT_ONCE) as pool:
        facts = list(pool.map(lambda each: probe_module(each.module, limit_seconds), installed))
    by_name = {each.name: fact for each, fact in zip(installed, facts, strict=True)}
    torch_cuda = str(by_name.get("torch", {}).get("cuda") or "")
    return tuple(_package(each, by_name[each.name], torch_cuda) for each in installed)


def probe_module(module: str, limit_seconds: float) -> dict[str, Any]:
    """Import ``module`` in a child process; its facts, or ``{"error": ...}`` if that fails."""
    command = [sys.executable, "-P", str(Path(probe.__file__)), module]
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            timeout=limit_seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONIOENCODING": "utf-8:replace"},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"import did not finish in {limit_seconds:g} s"}
    except OSError as error:
        return {"error": f"could not start {sys.executable}: {error.strerror or error}"}
    for line in reversed(child.stdout.decode(errors="replace").splitlines()):
        if line.startswith(probe.MARK):
            return dict(json.loads(line.removeprefix(probe.MARK)))
    return {"error": _how_it_died(child.returncode, child.stderr.decode(errors="replace"))}


def _how_it_died(code: int, stderr: str) -> str:
    try:
        how = f"crashed at import with {signal.Signals(-code).name}"
    except ValueError:
        how = f"ended Python at import with exit code {code}"
    last = [line.strip() for line in stderr.splitlines() if line.strip()][-1:]
    return f"{how}: {last[0]}" if last else how


def _installed(known: Known) -> bool:
    return bool(_distribution(known)) or _folder(known.module) is not None


def _folder(module: str) -> Path | None:
    """Where a module's files are, found without importing it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin else None  # a bare folder has no origin


def _distribution(known: Known) -> str:
    for name in known.distributions:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    return ""


def _package(known: Known, facts: dict[str, Any], torch_cuda: str) -> Package:
    distribution = _distribution(known)
    requires = importlib.metadata.requires(distribution) or [] if distribution else []
    pins = exact_pins(requires)
    found: dict[str, Any] = {name: str(facts.get(name) or "") for name in TEXT_FIELDS}
    found["error"] = found["error"][:ERROR_LENGTH]
    if distribution:  # the metadata knows the local part, +cu128, that some modules leave out
        found["version"] = importlib.metadata.version(distribution) or found["version"]
    pinned = next((pin.partition("==")[2] for pin in pins if pin.startswith("torch==")), "")
    found["built_for_torch"] = found["built_for_torch"] or pinned
    found["archs"] = tuple(facts.get("archs") or _archs_of(known, torch_cuda))
    found["jit_archs"] = tuple(facts.get("jit_archs") or ())
    found["import_seconds"] = facts.get("import_seconds")
    assert found.keys() <= {field.name for field in fields(Package)}
    return Package(known.name, distribution=distribution, pins=pins, **found)


def exact_pins(requires: Iterable[str]) -> tuple[str, ...]:
    """The requirements on torch and Triton that name one version: ``torch==2.7.1``."""
    pattern = re.compile(r"(torch|triton|triton-windows)\s*\(?==\s*([\w.+!]+)\)?\s*(?:;.*)?")
    found = [match for each in requires if (match := pattern.fullmatch(each.strip()))]
    return tuple(f"{match[1]}=={match[2]}" for match in found)


def _archs_of(known: Known, torch_cuda: str) -> tuple[str, ...]:
    archs: set[str] = set()
    for module in known.libraries:
        for library in _libraries(module):
            if known.name == "bitsandbytes" and not _for_cuda(library, torch_cuda):
                continue
            archs |= library_archs(library)
    return sorted_archs(archs)


def _libraries(module: str) -> Iterable[Path]:
    origin = _folder(module)
    if origin is None:
        return ()
    if origin.suffix in LIBRARY_SUFFIXES:
        return (origin,)
    return (path for path in origin.parent.rglob("*") if path.suffix in LIBRARY_SUFFIXES)


def _for_cuda(library: Path, torch_cuda: str) -> bool:
    """Of the libraries bitsandbytes ships, it loads the one for the CUDA torch was built with."""
    return bool(torch_cuda) and library.stem.endswith(f"_cuda{torch_cuda.replace('.', '')}")
