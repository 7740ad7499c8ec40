"""Change `allocator`."""

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pitstop.tune.change import When, change
from pitstop.tune.plan import Options
from pitstop.tune.ruled_out import steady_memory

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
RENAMED = (2, 9)  # the version of torch that knows the new name, and warns of the old one
SETTING = "expandable_segments:True"


def environment(options: Options) -> Mapping[str, str]:  # noqa: ARG001 there is nothing to choose
    """The variable with our setting, and whatever the user has put there before it."""
    name = NEW if _torch_version() >= RENAMED else OLD
    name = OLD if OLD in os.environ else name
    before = os.environ.get(name, "")
    kept = [each for each in before.split(",") if each and "expandable_segments" not in each]
    return {name: ",".join([*kept, SETTING])}


@change(
    "exact",
    helps=("memory", "time"),
    environment=environment,
    when=When(device="cuda", useless=steady_memory),
)
def allocator(script: "Script") -> None:
    """Let the GPU allocator grow its segments instead of asking for new ones.

    It pays where shapes vary and memory is lost to fragments: less of it, and fewer waits for
    ``cudaMalloc``.
    """
    script.on_cuda(script.applied)


def _torch_version() -> tuple[int, ...]:
    try:
        major, minor, *_ = version("torch").split(".")
    except PackageNotFoundError:
        return RENAMED
    return int(major), int(minor)
