"""Change `fp16`."""

from typing import TYPE_CHECKING

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_need_of_autocast

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change(
    "rounding",
    helps=("time", "memory"),
    precision="float16",
    toggles=True,
    when=When(
        useless=no_need_of_autocast, device="cuda", rivals=("bf16",), like=("bf16",), usual=0.09
    ),
)
def fp16(script: "Script") -> None:
    """Compute the forward pass and the loss under autocast in float16, with a gradient scaler.

    Three bits more of mantissa than bfloat16, at the price of range: small gradients need a scaled
    loss, and a step whose gradients overflow is skipped. A script that reads gradients itself,
    other than by torch's clipping, reads them scaled.
    """
    from pitstop.tune.inside.autocast import Autocast  # noqa: PLC0415 needs torch
    from pitstop.tune.inside.scaling import Scaling  # noqa: PLC0415 likewise

    Autocast(script, script.torch.float16)
    Scaling(script)
