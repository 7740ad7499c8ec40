"""PIT009 extension-built-for-other-arch."""

from collections.abc import Iterator
from itertools import product

from pitstop.core.finding import Finding
from pitstop.core.machine import Gpu, Machine, Package
from pitstop.core.rule import rule
from pitstop.doctor.builds import (
    CACHED,
    COMPILED,
    arch_of,
    arch_span,
    extension_install,
    one_per_capability,
    runs_as,
)

JUDGED_ELSEWHERE = ("torch", "torchvision", "cupy")  # rules of their own; vision follows torch


@rule("PIT009")
def extension_built_for_other_arch(machine: Machine) -> Iterator[Finding]:
    """A compiled extension holds no code for this GPU.

    Its first kernel fails with "no kernel image is available", though torch itself works.

    Bad:
        Machine(
            gpus=(Gpu("H200", "9.0"),),
            packages=(Package("xformers", "0.0.22", archs=("sm_80", "sm_86")),),
        )

    Good:
        Machine(
            gpus=(Gpu("H200", "9.0"),),
            packages=(Package("xformers", "0.0.31", archs=("sm_80", "sm_90")),),
        )
    """
    extensions = [each for each in machine.packages if each.name not in JUDGED_ELSEWHERE]
    for package, gpu in product(extensions, one_per_capability(machine)):
        code, needed = runs_as(gpu.capability, package.archs), arch_of(gpu.capability)
        if code in ("none", "ptx"):
            yield Finding(
                f"{package.name} has no {needed} for {gpu.name}, only {arch_span(package.archs)}",
                item=package.name,
                cure=_install(machine, package, gpu),
                severity="error" if code == "none" else "warning",
            )


def _install(machine: Machine, package: Package, gpu: Gpu) -> str:
    if package.name.startswith(CACHED):
        folder = package.name.removeprefix(CACHED)
        return f"delete {folder} from torch's extension cache: it is built anew for this GPU"
    install = extension_install(machine, package)
    if package.name not in COMPILED:
        return install
    wanted = f"TORCH_CUDA_ARCH_LIST={gpu.capability}"
    return f"set {wanted} && {install}" if machine.system == "Windows" else f"{wanted} {install}"
