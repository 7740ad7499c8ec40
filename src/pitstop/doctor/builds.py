"""Which build runs where: versions, GPU architectures and the install line that fits. Pure."""

import re
from typing import Literal

from pitstop.core.machine import Gpu, Machine, Package

Code = Literal["binary", "ptx", "none"]
Version = tuple[int, ...]

WHEELS = "https://download.pytorch.org/whl"
DRIVER_CUDA = ((580, (13, 0)), (525, (12, 0)), (450, (11, 0)))  # first driver of each CUDA major
FIRST_CUDA = {"11": (13, 0), "10": (12, 8), "12": (12, 8), "9": (11, 8)}  # by capability's major
CACHED = "torch extension "  # names of what torch compiled for itself and keeps in its cache
COMPILED = ("flash-attn", "gsplat")  # compiled against the torch at hand when installed
BESIDE_TORCH = ("torchvision", "xformers")  # published on PyTorch's own index, per CUDA version
OLD_GPU = (7, 5)  # PyTorch's CUDA 12.8 and later builds leave out what is older than Turing


def version_of(text: str) -> Version:
    """``2.7.1+cu118`` as ``(2, 7, 1)``; empty where there is no leading number."""
    match = re.match(r"\d{1,9}(?:\.\d{1,9})*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def release_of(text: str) -> str:
    """A version without its local part: ``2.7.1+cu118`` as ``2.7.1``."""
    return text.partition("+")[0]


def runs_as(capability: str, archs: tuple[str, ...]) -> Code | None:
    """How code for ``archs`` runs on a GPU; None where either is unknown.

    Machine code runs on its own major version, from its minor version up: sm_80 on 8.6 but not
    on 9.0. PTX is compiled by the driver for any later GPU. An ``a`` ties code to one chip.
    """
    gpu = version_of(capability)
    if len(gpu) != 2 or not archs:
        return None
    for arch in archs:
        if arch.startswith("sm_") and _binary_fits(arch, gpu):
            return "binary"
    if any(arch.startswith("compute_") and _ptx_fits(arch, gpu) for arch in archs):
        return "ptx"
    return "none"


def arch_of(capability: str) -> str:
    """``12.0`` as ``sm_120``."""
    return "sm_" + capability.replace(".", "")


def driver_cuda(gpu: Gpu) -> Version:
    """The newest CUDA that this GPU's driver runs; empty where unknown."""
    if stated := version_of(gpu.driver_cuda):
        return stated
    driver = version_of(gpu.driver)
    return next((cuda for first, cuda in DRIVER_CUDA if driver and driver[0] >= first), ())


def torch_index(gpu: Gpu) -> str:
    """The folder of PyTorch's wheels that has code for this GPU and runs on its driver."""
    capability, driver = version_of(gpu.capability), driver_cuda(gpu)
    first = FIRST_CUDA.get(gpu.capability.partition(".")[0], (11, 8))
    if driver and driver < (12, 0) and first < (12, 0):
        return "cu118"
    if first >= (13, 0):
        return "cu130"
    return "cu126" if capability and capability < OLD_GPU else "cu128"


def torch_install(machine: Machine, gpu: Gpu, option: str = "--upgrade") -> str:
    """The command that installs a torch for this GPU, with the torchvision that belongs to it."""
    names = "torch torchvision" if machine.package("torchvision") else "torch"
    return f"pip install {option} {names} --index-url {WHEELS}/{torch_index(gpu)}"


def same_index(torch: Package) -> str:
    """The pip option for the wheels that torch itself came from; empty for PyPI's."""
    local = torch.version.partition("+")[2]
    return f" --index-url {WHEELS}/{local}" if re.fullmatch(r"cu\d+|cpu", local) else ""


def extension_install(machine: Machine, package: Package) -> str:
    """The command that installs an extension anew for the torch that is there."""
    name, torch = package.distribution or package.name, machine.package("torch")
    if package.name in COMPILED:
        options = "--no-deps --no-build-isolation --no-cache-dir --no-binary :all:"
        return f"pip install --force-reinstall {options} {name}"
    if package.name in BESIDE_TORCH and torch:
        same_torch = f"torch=={release_of(torch.version)}"  # or pip may replace torch to please it
        return f"pip install --upgrade {same_torch} {name}{same_index(torch)}"
    return f"pip install --upgrade --force-reinstall --no-deps {name}"


def vision_mismatch(torch: Package, vision: Package) -> str:
    """What torchvision was built for against what is there; empty where they fit."""
    built, there = version_of(vision.built_for_torch), version_of(torch.version)
    if built and there and built[:3] != there[:3]:
        return f"torch {vision.built_for_torch}, but torch {torch.version} is installed"
    ours, theirs = version_of(vision.cuda)[:1], version_of(torch.cuda)[:1]
    if theirs and ours and ours != theirs:
        return f"CUDA {vision.cuda}, but torch {torch.version} for CUDA {torch.cuda}"
    if theirs and vision.version.endswith("+cpu"):
        return f"the CPU, but torch {torch.version} for CUDA {torch.cuda}"
    return ""


def nearly_fits(torch: Package, vision: Package) -> bool:
    """Whether only the last number differs and the import worked: fragile, not broken."""
    built, there = version_of(vision.built_for_torch), version_of(torch.version)
    return built[:3] != there[:3] and built[:2] == there[:2] and not vision.error


def one_per_capability(machine: Machine) -> list[Gpu]:
    """The GPUs of a machine, one for each compute capability."""
    return list({gpu.capability: gpu for gpu in reversed(machine.gpus)}.values())[::-1]


def arch_span(archs: tuple[str, ...]) -> str:
    """Architectures in short: ``sm_50 to sm_90 and PTX``."""
    known = sorted((parts, arch) for arch in archs if (parts := _parts(arch)[0]))
    binaries = [arch for _, arch in known if arch.startswith("sm_")]
    ends = dict.fromkeys([binaries[0], binaries[-1]]) if binaries else {}
    ptx = ["PTX"] if any(arch.startswith("compute_") for _, arch in known) else []
    return " and ".join([word for word in (" to ".join(ends), *ptx) if word])


def _parts(arch: str) -> tuple[Version, str]:
    match = re.fullmatch(r"(?:sm|compute)_(\d{1,3})(\d)([a-z]?)", arch)
    return ((int(match[1]), int(match[2])), match[3]) if match else ((), "")


def _binary_fits(arch: str, gpu: Version) -> bool:
    built, suffix = _parts(arch)
    if suffix == "a":
        return built == gpu
    return bool(built) and built[0] == gpu[0] and built <= gpu


def _ptx_fits(arch: str, gpu: Version) -> bool:
    built, suffix = _parts(arch)
    if suffix == "a":
        return built == gpu
    if suffix == "f":
        return bool(built) and built[0] == gpu[0] and built <= gpu
    return bool(built) and built <= gpu
