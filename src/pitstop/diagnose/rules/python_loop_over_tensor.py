"""PIT208 python-loop-over-tensor."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.cost import of_step
from pitstop.diagnose.place import span
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.row_loops import row_loops

WORTH_MENTIONING = 0.05  # of the step: rewriting a loop as one call is work


@rule("PIT208")
def python_loop_over_tensor(recording: Recording) -> Iterator[Finding]:
    """Python walks over the rows of a tensor, with operations of its own for each.

    One batched call does the same with one launch for each operation. Where a round needs the
    result of the one before it, as in a recurrent network, nothing can be batched. A loop that
    only reads numbers is sync-in-hot-loop.

    Bad:
        scores = torch.stack([(clip - mean).abs().mean() for clip in clips])

    Good:
        scores = (clips - mean).abs().flatten(1).mean(1)
    """
    ledger, evidence = recording.ledger, recording.evidence
    if ledger is None:
        return
    chained = {each.where for each in evidence.calls if each.chained}
    for loop in row_loops(evidence):
        if not loop.works or loop.reads or chained.intersection(loop.lines):
            continue
        ms = sum(ledger.total(where=line) for line in loop.lines)
        if ledger.share(ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"Python walks over {loop.rows} rows of a tensor one by one: {of_step(ms, ledger)}.",
            span=span(loop.where),
            cure="if no round needs the one before it, compute on the whole tensor at once",
            confidence="measured",
            metrics=(Metric("rows", loop.rows, "rows"), Metric("loop", ms, "ms")),
            saving=ledger.share(ms),
            claims=tuple(row for line in loop.lines for row in ledger.chosen(where=line)),
        )
