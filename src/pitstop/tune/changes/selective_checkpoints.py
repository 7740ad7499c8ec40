"""Change `selective-checkpoints`."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pitstop.tune.change import Facts, When, change
from pitstop.tune.changes.checkpointing_off import OF_CHECKPOINT
from pitstop.tune.plan import Options
from pitstop.tune.ranges import Number, OneOf
from pitstop.tune.ruled_out import no_checkpoint

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script

KEPT_FOR_MEMORY = 0.25  # of the bytes: the blocks that are cheapest to compute twice free the rest
GIB = 2**30
MOST_GIB = 1024  # of a GPU


def variants(facts: Facts) -> Iterator[Options]:
    """Where the script checkpoints, as few as the GPU allows; for memory, the cheapest blocks."""
    if not no_checkpoint(facts.evidence):
        yield {}
    elif facts.goal == "memory":
        yield {"blocks": True, "keep": KEPT_FOR_MEMORY}


@change(
    "exact",
    helps=("time", "memory"),
    toggles=True,
    variants=variants,
    when=When(work="training", rivals=("checkpointing-on", "checkpointing-off"), usual=0.1),
    ranges={
        "blocks": OneOf((True,)),
        "keep": Number(0.0, 1.0),
        "peak_gib": Number(0.1, MOST_GIB),
    },
)
def selective_checkpoints(script: "Script") -> None:
    """Checkpoint those blocks alone that are cheapest to compute twice.

    Each is measured in its first step, its bytes and its milliseconds. Where the script checkpoints
    by itself, blocks go without that save most time for their bytes, until `peak_gib` of the GPU's
    memory, or 85 % of it, is in use; or until `keep` of their bytes, 0 to 1, is held. With `blocks`
    those that repeat in a model are checkpointed instead, in a script that does not do so itself.
    """
    from pitstop.parts.checkpoints import Checkpoints, Room, worth_checkpointing  # noqa: PLC0415

    torch = script.torch
    keep, gib = (script.options.get(name) for name in ("keep", "peak_gib"))
    room = Room(
        None if keep is None else float(keep), None, None if gib is None else int(float(gib) * GIB)
    )
    checkpoints = Checkpoints(room, torch.utils.checkpoint.checkpoint)

    def in_place_of_its_own(
        original: Callable[..., Any], function: Callable[..., Any], *given: Any, **named: Any
    ) -> Any:
        if script.options.get("blocks"):
            script.decline("the script checkpoints by itself")
            return original(function, *given, **named)
        script.applied()
        rest = {name: value for name, value in named.items() if name not in OF_CHECKPOINT}
        return checkpoints(function, *given, **rest)

    def around(call: Callable[..., Any], block: Any, *given: Any, **named: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
            return call(*given, **named)
        script.applied()
        return checkpoints(call, *given, **named)

    def set_up(model: Any) -> None:
        for block in worth_checkpointing(model) if script.options.get("blocks") else ():
            script.wrap(block, around)

    script.needs("function was checkpointed, and no repeated block without BatchNorm was trained")
    script.patch(torch.utils.checkpoint, "checkpoint", in_place_of_its_own)
    script.on_model(set_up)
