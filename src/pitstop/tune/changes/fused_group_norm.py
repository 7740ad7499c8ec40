"""Change `fused-group-norm`."""

from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_group_norm

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change(
    "rounding",
    toggles=True,
    when=When(device="cuda", useless=no_group_norm),
)
def fused_group_norm(script: "Script") -> None:
    """Normalise groups, and apply the SiLU after it, in one kernel of ours that keeps the layout.

    It pays with channels-last, where torch's GroupNorm copies to the other layout and back.
    """

    def set_up(module: Any) -> None:
        from pitstop.parts.group_norm.fuse_group_norm import fuse_group_norm  # noqa: PLC0415 needs Triton

        undo = fuse_group_norm(module)
        swapped = len(undo.steps)
        undo()
        if not swapped:
            script.needs("GroupNorm in a model on a GPU that works by torch's own")
            return
        undos: list[Any] = []
        script.switch(
            lambda: undos.append(fuse_group_norm(module)), lambda: undos.pop()() if undos else None
        )
        script.applied(swapped)

    script.on_cuda_model(set_up)
