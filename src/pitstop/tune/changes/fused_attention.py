"""Change `fused-attention`."""

from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_attention_written

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change(
    "rounding",
    helps=("time", "memory"),
    toggles=True,
    when=When(useless=no_attention_written, usual=0.05),
)
def fused_attention(script: "Script") -> None:
    """Compute attention that a model writes out by our kernel, or by torch's fused one.

    It pays with windows (Swin, VRT, HAT), whose scores, bias and mask go through memory many times,
    and where torch's own keeps the scores on the chip. Who is fastest is measured once for each
    shape; where that is the source as it is, it runs, bit by bit. So does attention whose weights
    are read, changed or dropped at random. The fused ones cannot all be differentiated twice.
    """
    script.needs("attention that a model writes out, and whose scores nothing else reads")

    def set_up(model: Any) -> None:
        from pitstop.parts.attention import fuse_attention  # noqa: PLC0415 needs torch

        undo = fuse_attention(model)
        fused = len(undo.steps)
        undo()
        if not fused:
            return
        undos: list[Any] = []
        script.switch(
            lambda: undos.append(fuse_attention(model)), lambda: undos.pop()() if undos else None
        )
        script.applied(fused)

    script.on_model(set_up)
