"""Change `checkpointing-on`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import When, change

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


@change(
    "exact",
    helps=("memory",),
    toggles=True,
    when=When(work="training", rivals=("checkpointing-off", "selective-checkpoints")),
)
def checkpointing_on(script: "Script") -> None:
    """Compute the activations of repeated blocks twice instead of keeping them.

    It saves most of the memory of training, and costs about a third more time. Blocks with
    BatchNorm stay as they are: their running averages would be updated twice.
    """
    from pitstop.parts.blocks import repeated_blocks  # noqa: PLC0415 needs torch

    torch = script.torch
    checkpoint = torch.utils.checkpoint.checkpoint
    script.needs("repeated block without BatchNorm is trained")

    def around(call: Callable[..., Any], block: Any, *given: Any, **named: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
            return call(*given, **named)
        script.applied()
        return checkpoint(call, *given, use_reentrant=False, **named)

    def set_up(module: Any) -> None:
        from pitstop import internals  # noqa: PLC0415 needs torch

        for block in repeated_blocks(module):
            if not any(isinstance(each, internals.BatchNorm) for each in block.modules()):
                script.wrap(block, around)

    def by_script(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        script.decline("the script checkpoints by itself")
        return original(*given, **named)

    script.on_model(set_up)
    script.patch(torch.utils.checkpoint, "checkpoint", by_script)
