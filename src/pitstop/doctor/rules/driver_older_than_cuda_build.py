"""PIT007 driver-older-than-cuda-build."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Gpu, Machine
from pitstop.core.rule import rule
from pitstop.doctor.builds import DRIVER_CUDA, driver_cuda, runs_as, torch_install, version_of


@rule("PIT007")
def driver_older_than_cuda_build(machine: Machine) -> Iterator[Finding]:
    """The NVIDIA driver is too old for the CUDA version of a build.

    A driver runs every CUDA of its own major version and of older ones, but none of a newer
    major version: torch then finds no GPU. Within a major version a newer CUDA runs, except
    that the driver cannot compile its PTX.

    Bad:
        Machine(
            gpus=(Gpu("RTX 4090", "8.9", driver="535.183.01", driver_cuda="12.2"),),
            packages=(Package("torch", "2.11.0+cu130", cuda="13.0"),),
        )

    Good:
        Machine(
            gpus=(Gpu("RTX 4090", "8.9", driver="580.95.05", driver_cuda="13.0"),),
            packages=(Package("torch", "2.11.0+cu130", cuda="13.0"),),
        )
    """
    for name in ("torch", "cupy"):
        package, gpu = machine.package(name), next(iter(machine.gpus), None)
        if package is None or gpu is None:
            continue
        build, driver = version_of(package.cuda)[:2], driver_cuda(gpu)[:2]
        only_ptx = runs_as(gpu.capability, package.archs) == "ptx"
        if build and driver and (build[0] > driver[0] or (only_ptx and build > driver)):
            runs = ".".join(map(str, driver))
            yield Finding(
                f"{name} {package.version} needs CUDA {package.cuda}; "
                f"driver {gpu.driver} runs up to {runs}",
                item=name,
                cure=_cure(machine, name, gpu, build[0]),
                severity="error",
            )


def _cure(machine: Machine, name: str, gpu: Gpu, major: int) -> str:
    first = next((driver for driver, cuda in DRIVER_CUDA if cuda[0] == major), None)
    newer = f"update the NVIDIA driver to {first} or later" if first else "update the NVIDIA driver"
    if name == "torch":
        return f"{torch_install(machine, gpu, '--force-reinstall')} (or {newer})"
    return newer
