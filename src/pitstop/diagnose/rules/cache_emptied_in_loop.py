"""PIT204 cache-emptied-in-loop."""

from collections.abc import Iterator

from pitstop.core.finding import Finding, Metric
from pitstop.core.rule import rule
from pitstop.diagnose.facts.operations import EMPTYING, by_line
from pitstop.diagnose.ledger.cost import cost_phrase, idle_behind, idle_rows
from pitstop.diagnose.recording import Recording
from pitstop.diagnose.told.place import span

WORTH_MENTIONING = 0.01  # of the step; a suspicion that costs less is cleared


@rule("PIT204")
def cache_emptied_in_loop(recording: Recording) -> Iterator[Finding]:
    """The allocator's cache is emptied in every step."""
    ledger = recording.ledger
    if ledger is None or ledger.device != "cuda":
        return
    calls = [each for each in recording.evidence.operations if each.name == EMPTYING]
    for line, emptied in by_line(calls).items():
        ms = idle_behind(ledger, line, sum(each.micros for each in emptied))
        if ledger.at_stake(ms) < WORTH_MENTIONING:
            continue
        yield Finding(
            f"Emptying the allocator's cache leaves the GPU idle for {cost_phrase(ms, ledger)}.",
            span=span(line),
            cure="drop the call: the allocator reuses its memory by itself",
            confidence="measured",
            metrics=(Metric("cost", ms, "ms"),),
            saving=ledger.at_stake(ms),
            claims=idle_rows(ledger, line),
            changes=("no-empty-cache",),
        )
