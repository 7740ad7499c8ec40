"""PIT010 cpu-build-beside-a-gpu."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.rule import rule
from pitstop.doctor.builds import torch_install


@rule("PIT010")
def cpu_build_beside_a_gpu(machine: Machine) -> Iterator[Finding]:
    """The machine has a GPU, but torch was built for the CPU only.

    ``torch.cuda.is_available()`` is False and everything runs on the CPU, often without a
    word. PyPI's Windows wheels are CPU builds, and so is what --index-url .../whl/cpu gives.

    Bad:
        Machine(gpus=(Gpu("RTX 4090", "8.9"),), packages=(Package("torch", "2.7.1+cpu"),))

    Good:
        Machine(
            gpus=(Gpu("RTX 4090", "8.9"),),
            packages=(Package("torch", "2.7.1+cu128", cuda="12.8"),),
        )
    """
    torch = machine.package("torch")
    if torch is None or torch.error or torch.cuda or torch.hip or not machine.gpus:
        return
    gpu = machine.gpus[0]
    yield Finding(
        f"torch {torch.version} is built for the CPU only, but the machine has {gpu.name}",
        item="torch",
        cure=torch_install(machine, gpu, "--force-reinstall"),
        severity="error",
    )
