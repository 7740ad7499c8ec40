"""PIT001 gpu-arch-not-in-torch-build."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.rule import rule
from pitstop.doctor.builds import (
    arch_of,
    arch_span,
    one_per_capability,
    runs_as,
    torch_install,
)


@rule("PIT001")
def gpu_arch_not_in_torch_build(machine: Machine) -> Iterator[Finding]:
    """The installed torch holds no machine code for this GPU.

    Every CUDA call then fails with "no kernel image is available for execution on the device".
    Where the build holds PTX for an older architecture the driver compiles it at the first
    start: that takes minutes, and the code misses what the newer GPU is good at.

    Bad:
        Machine(
            gpus=(Gpu("RTX 5070", "12.0"),),
            packages=(Package("torch", "2.7.1+cu118", cuda="11.8", archs=("sm_80", "sm_90")),),
        )

    Good:
        Machine(
            gpus=(Gpu("RTX 5070", "12.0"),),
            packages=(Package("torch", "2.7.1+cu128", cuda="12.8", archs=("sm_90", "sm_120")),),
        )
    """
    torch = machine.package("torch")
    if torch is None:
        return
    for gpu in one_per_capability(machine):
        code, needed = runs_as(gpu.capability, torch.archs), arch_of(gpu.capability)
        built = arch_span(torch.archs)
        if code == "none":
            yield Finding(
                f"torch {torch.version} has no {needed} for {gpu.name}, only {built}",
                item="torch",
                cure=torch_install(machine, gpu),
                severity="error",
            )
        elif code == "ptx":
            yield Finding(
                f"torch {torch.version} has only PTX for {gpu.name}, no {needed} code: {built}",
                item="torch",
                cure=torch_install(machine, gpu),
            )
