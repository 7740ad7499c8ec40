"""PIT617 parameter-groups-alike."""

from collections.abc import Iterator

from pitstop.core.evidence import Optimizer
from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

GROUP = 3.0  # times as much of the host's time as for a tensor; AdamW, fused or by foreach
WORTH_MENTIONING = 0.05  # of the step; less cannot be measured


@rule("PIT617")
def parameter_groups_alike(recording: Recording) -> Iterator[Finding]:
    """The optimizer updates many parameter groups one after the other, though they are alike.

    A recipe that makes a group for each tensor, to choose its decay or its rate by its name, has
    hundreds of groups with few different settings. Each costs the host as much as some tensors,
    and kernels of its own. `merge_groups` lets the optimizer see groups of equal settings as one
    while it steps; schedulers and checkpoints see what was made.

    Bad:
        named = model.named_parameters()
        groups = [{"params": [p], "weight_decay": decay(name)} for name, p in named]
        optimizer = torch.optim.AdamW(groups, lr=1e-4)

    Good:
        named = model.named_parameters()
        groups = [{"params": [p], "weight_decay": decay(name)} for name, p in named]
        optimizer = torch.optim.AdamW(groups, lr=1e-4)
        merge_groups(optimizer)
    """
    evidence, ledger = recording.evidence, recording.ledger
    tensors = sum(each.tensors for each in evidence.optimizers)
    if ledger is None or not tensors:
        return
    spent_ms = max(evidence.median_ms("optimizer_ms"), ledger.total("optimizer"))
    for each in evidence.optimizers:
        ms = spent_ms * each.tensors / tensors
        saved_ms = ms * _spared(each)
        by_lists = each.fused or each.foreach or (each.foreach is None and ledger.device == "cuda")
        if not by_lists or ledger.share(saved_ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"`{each.name}` takes {cost_phrase(ms, ledger)} for {count(each.groups, 'group')} of "
            f"parameters; {each.unlike_groups} would do.",
            span=span(each.made),
            cure="merge_groups(optimizer)",
            confidence="measured",
            metrics=(Metric("optimizer", ms, "ms"), Metric("groups", each.groups, "groups")),
            saving=ledger.share(saved_ms),
            claims=ledger.chosen("optimizer"),
            changes=("merge-groups",),
        )


def _spared(optimizer: Optimizer) -> float:
    """The share of its time that groups take which are there once too often."""
    too_many = optimizer.groups - optimizer.unlike_groups
    return GROUP * too_many / (GROUP * optimizer.groups + optimizer.tensors)
