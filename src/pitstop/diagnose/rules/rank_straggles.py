"""PIT801 rank-straggles."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from pitstop.core.evidence import Evidence
from pitstop.core.finding import Finding, Metric
from pitstop.core.ledger import IDLE, Row
from pitstop.core.rule import rule
from pitstop.core.units import milliseconds, percent
from pitstop.diagnose.facts.ranks import input_ms, line_behind, own_ms, waiting_ms
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.10  # of the step; ranks differ by less in any run
AT = (0.25, 0.5)  # of its steps, quickest first: noise slows down some, but not the quick ones
WAITED_FOR = 0.5  # of the excess must show as waiting in the others, or nobody is held up


@rule("PIT801")
def rank_straggles(recording: Recording) -> Iterator[Finding]:
    """One rank needs longer for its own work than the others, and they wait for it.

    In each step all ranks meet to add up their gradients, so all have the same step time: only
    what a rank does before that meeting tells the slow one from those that wait. Uneven batches,
    a slower disk or work that is meant for one rank alone are the usual causes.

    Bad:
        if rank == 0:
            save_samples(model)
        loss.backward()

    Good:
        loss.backward()
        if rank == 0 and step % 100 == 0:
            save_samples(model)
    """
    ranks = [each for each in recording.ranks if each.steady]
    for slow in ranks:
        others = [each for each in ranks if each is not slow]
        if not others:
            return
        excess_ms = min(own_ms(slow, at) - median(own_ms(each, at) for each in others) for at in AT)
        waited_ms = median(map(waiting_ms, others)) - waiting_ms(slow)
        step_ms = slow.median_ms()
        if excess_ms < WORTH_MENTIONING * step_ms or waited_ms < WAITED_FOR * excess_ms:
            continue
        found = _finding(slow, others, excess_ms, step_ms)
        yield replace(found, claims=_rows(recording, slow))


def _rows(recording: Recording, slow: Evidence) -> tuple[Row, ...]:
    """Whatever is left of the step: nobody knows what the others would do with the time."""
    rows = recording.ledger.rows if recording.ledger else ()
    work = [row for row in rows if row.cause not in IDLE]
    idle = [row for row in rows if row.cause in IDLE]
    return (*work, *idle) if slow is recording.evidence else (*idle, *work)


def _finding(slow: Evidence, others: list[Evidence], excess_ms: float, step_ms: float) -> Finding:
    read_ms = input_ms(slow) - median(map(input_ms, others))
    by_input = read_ms > excess_ms / 2
    cause = "waiting for its data" if by_input else "computing"
    share = min(1.0, excess_ms / step_ms)
    place = span(line_behind(slow, others, by_input))
    return Finding(
        f"Rank {slow.rank} works {milliseconds(excess_ms)} longer than the others in each step, "
        f"{cause}, and they wait for it: {percent(share)} of {milliseconds(step_ms)}.",
        span=place,
        item=f"rank {slow.rank}",
        cure="give it faster input" if by_input else "share its work, or do it outside the step",
        confidence="measured",
        metrics=(
            Metric("own work, more than the others", excess_ms, "ms"),
            Metric("of it waiting for data", max(0.0, read_ms), "ms"),
        ),
        saving=share,
    )
