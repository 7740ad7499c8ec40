"""Change `checkpointing-off`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import no_checkpoint

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

OF_CHECKPOINT = {
    "use_reentrant",
    "preserve_rng_state",
    "context_fn",
    "determinism_check",
    "debug",
    "early_stop",
}


@change(
    "exact",
    toggles=True,
    when=When(
        work="training",
        useless=no_checkpoint,
        rivals=("checkpointing-on", "selective-checkpoints"),
        usual=0.2,
    ),
)
def checkpointing_off(script: "Script") -> None:
    """Keep the activations instead of computing them twice.

    It pays, about a third of the step, wherever the memory for them is there.
    """
    script.needs("function was checkpointed")

    def call(_: object, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if script.torch.is_grad_enabled():
            script.applied()
        rest = {name: value for name, value in named.items() if name not in OF_CHECKPOINT}
        return function(*given, **rest)

    script.patch(script.torch.utils.checkpoint, "checkpoint", call)
