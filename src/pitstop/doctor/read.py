"""Read this machine: the system, the GPUs and the packages, without dying of what is broken."""

import importlib.metadata
import platform
from dataclasses import replace

from pitstop.core.machine import Machine, Package
from pitstop.doctor import system
from pitstop.doctor.extensions import read_extensions
from pitstop.doctor.gpus import read_gpus
from pitstop.doctor.packages import read_packages


def read_machine(workers: int | None = None, batch_bytes: int | None = None) -> Machine:
    """The machine as it is; ``workers`` and ``batch_bytes`` are what the user means to run."""
    packages = read_packages()
    torch_cuda = next((each.cuda for each in packages if each.name == "torch"), "")
    return replace(
        read_hardware(),
        workers=workers,
        batch_bytes=batch_bytes,
        packages=packages + read_extensions(torch_cuda),
    )


def read_hardware() -> Machine:
    """The machine without its packages, of which only torch is named: no import, no wait."""
    gpus, gpu_error = read_gpus()
    shared_memory_bytes, shared_memory_free_bytes = system.shared_memory()
    return Machine(
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        container=system.in_container(),
        cpu=system.cpu_name(),
        cores=system.usable_cores(),
        memory_bytes=system.usable_memory(),
        shared_memory_bytes=shared_memory_bytes,
        shared_memory_free_bytes=shared_memory_free_bytes,
        python=platform.python_version(),
        start_method=system.start_method(),
        packages=_torch(),
        gpus=gpus,
        gpu_error=gpu_error,
    )


def _torch() -> tuple[Package, ...]:
    try:
        return (Package("torch", importlib.metadata.version("torch")),)
    except importlib.metadata.PackageNotFoundError:
        return ()
