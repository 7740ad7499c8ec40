"""Change `cudnn-benchmark`."""

from typing import TYPE_CHECKING

from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_convolution

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


def useless(evidence: Evidence) -> str:
    """Whether it is on, or must not be, or nothing is convolved."""
    settings = evidence.settings
    if settings and settings.cudnn_benchmark:
        return "cudnn.benchmark is on"
    if settings and settings.deterministic:
        return "the script asks for deterministic algorithms"
    return no_convolution(evidence)


@change("rounding", when=When(device="cuda", useless=useless, late=True))
def cudnn_benchmark(script: "Script") -> None:
    """Let cuDNN time its convolution algorithms, once for each shape, and take the fastest.

    It pays where the same shapes come again and again. Where every batch has another shape, it
    times algorithms in each step and makes things slower. torch remembers the algorithm of a shape
    whether this is on or off, so that only a fresh process tells the two apart.
    """
    cudnn = script.torch.backends.cudnn

    def set_to(on: bool) -> None:
        cudnn.benchmark = on

    def set_up() -> None:
        if cudnn.benchmark:
            script.decline("it is on already")
        elif cudnn.deterministic:
            script.decline("the script asks for deterministic algorithms")
        else:
            script.switch(lambda: set_to(True), lambda: set_to(False))
            script.applied()

    script.on_cuda(set_up)
