"""Change `tf32`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_float32

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

State = tuple[Any, Any]  # of matrix products and of convolutions


def useless(evidence: Evidence) -> str:
    """Whether it is on, or there is nothing that it applies to."""
    settings = evidence.settings
    if settings and settings.tf32_matmul and settings.tf32_cudnn:
        return "TF32 is on"
    return no_float32(evidence)


@change(
    "rounding",
    precision="tfloat32",
    toggles=True,
    when=When(device="cuda", useless=useless, usual=0.08),
)
def tf32(script: "Script") -> None:
    """Let float32 matrix products and convolutions use the tensor cores, with 10 bits of mantissa.

    It pays where such products take much of the step on an Ampere GPU or later, and does nothing
    for what already runs in half precision.
    """

    def set_up() -> None:
        before, on, set_to = _settings(script.torch)
        if before == on:
            script.decline("it is on already")
            return
        script.switch(lambda: set_to(on), lambda: set_to(before))
        script.applied()

    script.on_cuda(set_up)


def _settings(torch: Any) -> tuple[State, State, Callable[[State], None]]:
    """What is set, what to set, and how: by the interface of the script, torch mixes no two."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

    def set_flags(state: State) -> None:
        matmul.allow_tf32, cudnn.allow_tf32 = state

    def set_precisions(state: State) -> None:
        matmul.fp32_precision, cudnn.conv.fp32_precision = state

    try:
        return (matmul.allow_tf32, cudnn.allow_tf32), (True, True), set_flags
    except RuntimeError:  # the script has set fp32_precision
        before = (matmul.fp32_precision, cudnn.conv.fp32_precision)
        return before, ("tf32", "tf32"), set_precisions
