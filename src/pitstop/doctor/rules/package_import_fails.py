"""PIT012 package-import-fails."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine, Package
from pitstop.core.rule import rule
from pitstop.doctor.builds import extension_install, same_index, vision_mismatch

STANDS_ALONE = ("torch", "triton", "cupy")  # the others import torch, and fail when it does


@rule("PIT012")
def package_import_fails(machine: Machine) -> Iterator[Finding]:
    """An installed package cannot be imported.

    Libraries that use it when it is there often swallow the error and take a slower path: an
    attention kernel that does not load is a slow model, not a failed one.

    Bad:
        Machine(packages=(Package("xformers", "0.0.31", error="OSError: undefined symbol"),))

    Good:
        Machine(packages=(Package("xformers", "0.0.31"),))
    """
    torch = machine.package("torch")
    for package in machine.packages:
        if not package.error or _explained(package, torch):
            continue
        yield Finding(
            f"{package.name} {package.version}: {package.error}",
            item=package.name,
            cure=_reinstall(machine, package),
            severity="error",
        )


def _explained(package: Package, torch: Package | None) -> bool:
    """Whether another finding already names the cause."""
    if torch is None or package.name in STANDS_ALONE:
        return False
    return bool(torch.error) or (
        package.name == "torchvision" and bool(vision_mismatch(torch, package))
    )


def _reinstall(machine: Machine, package: Package) -> str:
    if package.name == "torch":
        return f"pip install --force-reinstall torch{same_index(package)}"
    if package.distribution.startswith("cupy-cuda"):  # ctk: with a CUDA of its own
        return f'pip install --upgrade "{package.distribution}[ctk]"'
    return extension_install(machine, package)
