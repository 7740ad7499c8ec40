"""PIT004 triton-missing."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine, Package
from pitstop.core.rule import rule
from pitstop.doctor.builds import same_index, version_of

LEAST_CAPABILITY = (7, 0)  # Triton makes no code for older GPUs
TRITON_BEHIND_TORCH = 4  # torch 2.N works with Triton 3.(N - 4), from torch 2.5 to 2.10


@rule("PIT004")
def triton_missing(machine: Machine) -> Iterator[Finding]:
    """Triton is not installed beside a CUDA build of torch.

    torch.compile writes its GPU kernels in Triton, and without it raises or stays in eager
    mode. Linux wheels bring it along unless installed with --no-deps; Windows has it apart.

    Bad:
        Machine(
            system="Windows",
            gpus=(Gpu("RTX 4090", "8.9"),),
            packages=(Package("torch", "2.7.1+cu128", cuda="12.8"),),
        )

    Good:
        Machine(
            system="Windows",
            gpus=(Gpu("RTX 4090", "8.9"),),
            packages=(Package("torch", "2.7.1+cu128", cuda="12.8"), Package("triton", "3.3.1")),
        )
    """
    torch = machine.package("torch")
    able = any(version_of(gpu.capability) >= LEAST_CAPABILITY for gpu in machine.gpus)
    if torch is None or not torch.cuda or not able or machine.package("triton"):
        return
    yield Finding(
        f"not installed, so torch.compile in torch {torch.version} cannot make GPU kernels",
        item="triton",
        cure=_install(machine.system, torch),
    )


def _install(system: str, torch: Package) -> str:
    pinned = next((pin for pin in torch.pins if pin.startswith("triton")), "")
    if pinned and system != "Windows":
        return f"pip install {pinned}{same_index(torch)}"
    name, version = "triton-windows" if system == "Windows" else "triton", version_of(torch.version)
    fitting = version[:1] == (2,) and len(version) > 1 and 5 <= version[1] <= 10
    series = f"==3.{version[1] - TRITON_BEHIND_TORCH}.*" if fitting else ""
    return f'pip install "{name}{series}"'
