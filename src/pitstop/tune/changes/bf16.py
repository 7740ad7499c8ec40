"""Change `bf16`."""

from typing import TYPE_CHECKING

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_need_of_autocast, only_emulated

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change(
    "rounding",
    helps=("time", "memory"),
    precision="bfloat16",
    toggles=True,
    when=When(useless=no_need_of_autocast, impossible=only_emulated, rivals=("fp16",), usual=0.1),
)
def bf16(script: "Script") -> None:
    """Compute the forward pass and the loss under autocast in bfloat16; weights stay float32.

    It pays where matrix products or memory traffic of activations take the step. bfloat16 has the
    range of float32, so no gradient scaler is needed, but only 8 bits of mantissa.
    """
    from pitstop.tune.inside.autocast import Autocast  # noqa: PLC0415 needs torch

    Autocast(script, script.torch.bfloat16)
