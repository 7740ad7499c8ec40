"""PIT404 graph-breaks."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.core.units import count
from pitstop.diagnose.facts.compiling import first_words
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.02  # of the step in Python and launches; else the breaks cost nothing
MOST = 5  # the rest is seen when these are gone


@rule("PIT404")
def graph_breaks(recording: Recording) -> Iterator[Finding]:
    """A compiled function falls back to Python in the middle.

    At each break the graph ends, Python runs, and another graph begins: nothing is fused across
    it, and no CUDA graph spans it. Prints, reads of numbers and branches on tensors are the
    usual causes.

    Bad:
        @torch.compile
        def loss_of(prediction, target):
            loss = (prediction - target).square().mean()
            print(loss.item())
            return loss

    Good:
        @torch.compile
        def loss_of(prediction, target):
            return (prediction - target).square().mean()
    """
    ledger, evidence = recording.ledger, recording.evidence
    if ledger is None or not evidence.compiled:
        return
    if ledger.at_stake(ledger.total("launch", "python", "sync")) < WORTH_MENTIONING:
        return
    found = sorted(evidence.breaks, key=lambda each: -each.count)
    for each in [each for each in found if each.where.path][:MOST]:
        ms = ledger.total("launch", "python", "sync", where=each.where)
        yield Finding(
            f"The compiled graph ends here, {count(each.count, 'time')}: "
            f"{first_words(each.reason)}.",
            span=span(each.where),
            cure="move it out of the compiled function, or write it with tensors alone",
            confidence="measured",
            metrics=(Metric("breaks", each.count, "times"),),
            saving=ledger.at_stake(ms) or None,
            claims=ledger.chosen("launch", "python", "sync", where=each.where),
            changes=("compile",),
        )
