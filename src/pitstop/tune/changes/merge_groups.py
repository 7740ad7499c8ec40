"""Change `merge-groups`."""

from typing import TYPE_CHECKING, Any

from pitstop.core.evidence import Evidence
from pitstop.tune.change import When, change
from pitstop.tune.ruled_out import LITTLE

if TYPE_CHECKING:
    from pitstop.tune.inside.script import Script


def useless(evidence: Evidence) -> str:
    """Whether no two groups are alike, or optimizers take next to nothing on the host."""
    known = evidence.optimizers
    if known and all(each.groups == each.unlike_groups for each in known):
        return "no two parameter groups have equal settings"
    if evidence.median_ms("optimizer_ms") < LITTLE * evidence.median_ms():
        return "the optimizer takes next to nothing"
    return ""


@change("exact", toggles=True, when=When(work="training", useless=useless, usual=0.02))
def merge_groups(script: "Script") -> None:
    """Update parameter groups of equal settings at once, not one after the other.

    It pays where a recipe makes a group for each tensor. The groups are merged only while the
    optimizer steps, by what their settings are then: schedulers, checkpoints and code that asks for
    a group by its number see the groups that were made.
    """
    script.needs("optimizer with two parameter groups of equal settings")

    def built(optimizer: Any) -> None:
        from pitstop.parts.merge_groups import alike, merge_groups  # noqa: PLC0415 needs torch

        if len(alike(optimizer)) < len(optimizer.param_groups):
            merge_groups(optimizer, lambda: script.on)
            script.applied()

    script.on_optimizer_built(built)
