"""PIT208 python-loop-over-tensor."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import BUSY, Cause, Row
from pitstop.core.rule import rule
from pitstop.diagnose.facts.row_loops import row_loops
from pitstop.diagnose.ledger.cost import cost_phrase
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.05  # of the step: rewriting a loop as one call is work
BETWEEN: tuple[Cause, ...] = (
    "python",
    "launch",
    "sync",
)  # what a round costs beside its operations
START_MS = 0.05  # of an inspected operation that is only its start; the rest is work


@rule("PIT208")
def python_loop_over_tensor(recording: Recording) -> Iterator[Finding]:
    """Python walks over the rows of a tensor, with operations of its own for each."""
    ledger, evidence = recording.ledger, recording.evidence
    if ledger is None:
        return
    chained = {each.where for each in evidence.calls if each.chained}
    for loop in row_loops(evidence):
        if not loop.works or loop.reads or chained.intersection(loop.lines):
            continue
        rows = tuple(row for line in loop.lines for row in ledger.chosen(where=line))
        ms, saved_ms = sum(row.ms for row in rows), _saved_ms(rows, loop.rows)
        if ledger.at_stake(saved_ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"Python walks over {loop.rows} rows of a tensor one by one: "
            f"{cost_phrase(ms, ledger)}.",
            span=span(loop.where),
            cure="if no round needs the one before it, compute on the whole tensor at once",
            confidence="measured",
            metrics=(Metric("rows", loop.rows, "rows"), Metric("loop", ms, "ms")),
            saving=ledger.at_stake(saved_ms),
            claims=rows,
        )


def _saved_ms(rows: tuple[Row, ...], rounds: int) -> float:
    """What all rounds but one spend on being rounds; the work on the rows remains."""
    spent = sum(row.ms for row in rows if row.cause in BETWEEN)
    started = sum(min(row.ms, START_MS * row.calls) for row in rows if row.cause in BUSY)
    return (spent + started) * (1 - 1 / rounds)
