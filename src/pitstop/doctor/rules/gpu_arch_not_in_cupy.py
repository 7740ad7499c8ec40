"""PIT002 gpu-arch-not-in-cupy."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Gpu, Machine, Package
from pitstop.core.rule import rule
from pitstop.doctor.builds import arch_of, arch_span, driver_cuda, one_per_capability, runs_as


@rule("PIT002")
def gpu_arch_not_in_cupy(machine: Machine) -> Iterator[Finding]:
    """CuPy cannot make code for this GPU.

    CuPy compiles kernels at run time, for the newest architecture that it and its NVRTC know.
    On a newer GPU that code does not load, and a project with CuPy kernels fails or drops to
    its slow fallback without a word.

    Bad:
        Machine(
            gpus=(Gpu("RTX 5070", "12.0"),),
            packages=(Package("cupy", "12.3.0", cuda="11.8", jit_archs=("sm_80", "sm_90")),),
        )

    Good:
        Machine(
            gpus=(Gpu("RTX 5070", "12.0"),),
            packages=(Package("cupy", "14.2.0", cuda="12.9", jit_archs=("sm_90", "sm_120")),),
        )
    """
    cupy = machine.package("cupy")
    if cupy is None:
        return
    for gpu in one_per_capability(machine):
        known = cupy.jit_archs or cupy.archs
        code = runs_as(gpu.capability, known)
        if cupy.jit_archs and code == "binary" and runs_as(gpu.capability, cupy.archs) == "none":
            known, code = cupy.archs, "none"  # kernels compile, but sort and random have no code
        if code in ("none", "ptx"):
            needed = arch_of(gpu.capability)
            yield Finding(
                f"cupy {cupy.version} has no {needed} for {gpu.name}, only {arch_span(known)}",
                item="cupy",
                cure=_install(cupy, gpu),
                severity="error" if code == "none" else "warning",
            )


def _install(cupy: Package, gpu: Gpu) -> str:
    major = (driver_cuda(gpu) or (12,))[0]
    wheel = f"cupy-cuda{min(13, max(11, major))}x"
    install = f'pip install --upgrade "{wheel}[ctk]"'  # ctk: with an NVRTC of its own
    if cupy.distribution in ("", wheel):
        return install
    return f"pip uninstall -y {cupy.distribution} && {install}"
