"""PIT003 torchvision-built-for-other-torch."""

from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.machine import Machine
from pitstop.core.rule import rule
from pitstop.doctor.builds import nearly_fits, release_of, same_index, vision_mismatch


@rule("PIT003")
def torchvision_built_for_other_torch(machine: Machine) -> Iterator[Finding]:
    """The installed torchvision was built for another torch.

    Its compiled operators then fail to load ("operator torchvision::nms does not exist"), and
    every package that imports torchvision fails with it: timm, lightning, diffusers' parts.

    Bad:
        Machine(
            packages=(
                Package("torch", "2.7.1"),
                Package("torchvision", "0.21.0", built_for_torch="2.6.0"),
            )
        )

    Good:
        Machine(
            packages=(
                Package("torch", "2.7.1"),
                Package("torchvision", "0.22.1", built_for_torch="2.7.1"),
            )
        )
    """
    torch, vision = machine.package("torch"), machine.package("torchvision")
    if torch is None or vision is None:
        return
    if wrong := vision_mismatch(torch, vision):
        yield Finding(
            f"torchvision {vision.version} was built for {wrong}",
            item="torchvision",
            cure=f"pip install torch=={release_of(torch.version)} torchvision{same_index(torch)}",
            severity="warning" if nearly_fits(torch, vision) else "error",
        )
