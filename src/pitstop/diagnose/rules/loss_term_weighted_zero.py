"""PIT613 loss-term-weighted-zero."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.calls import call_tree, lines_of, starred, stretch
from pitstop.diagnose.ledger.behind import operations_in, rows_behind
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import label

WORTH_MENTIONING = 0.002  # of the step; the proof is certain, so even little is worth a note
A_NOTE = 0.01  # of the step; below this nobody will measure the gain


@rule("PIT613")
def loss_term_weighted_zero(recording: Recording) -> Iterator[Finding]:
    """A loss term is computed, differentiated, and multiplied by zero.

    A weight that is zero until some later step does not stop the forward and backward pass of
    the term. Branch around the whole term while its weight is zero, as the part `weighted` does.

    Bad:
        weight = 0.0 if step < start else 1.0
        loss = pixel_loss + weight * discriminator(fake).mean()

    Good:
        loss = pixel_loss
        if step >= start:
            loss = loss + discriminator(fake).mean()
    """
    evidence, ledger = recording.evidence, recording.ledger
    if ledger is None:
        return
    tree = call_tree(evidence)
    for zeroed in evidence.zeroed:
        known = [position for position in zeroed.calls if 0 <= position < len(tree.calls)]
        positions = tree.outermost(known)
        ms = tree.ms(sum(tree.micros[position] for position in positions), ledger)
        share = min(ledger.at_stake(ms), ledger.at_stake(ledger.total("unused")))
        if share < WORTH_MENTIONING:
            continue
        names = sorted({starred(tree.calls[position].path) for position in positions})
        named = " and ".join(f"`{name}`" for name in names[:2])
        works = "computes" if len(names) == 1 else "compute"
        yield Finding(
            f"The term at {label(zeroed.where)} is multiplied by zero; {named} {works} it for "
            f"nothing in {cost_phrase(ms, ledger)}, its backward pass included.",
            span=stretch((zeroed.where, *lines_of(tree, positions))),
            cure="compute it while its weight is not zero: part `weighted`, change `leave-out`",
            severity="note" if share < A_NOTE else "warning",
            confidence="measured",
            metrics=(Metric("multiplied by zero", ms, "ms"),),
            saving=share,
            changes=("leave-out",),
            claims=rows_behind(ledger, operations_in(evidence, positions), "unused"),
        )
