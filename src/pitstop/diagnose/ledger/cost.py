"""Cost: what a line cost the step, and how a sentence says it."""

from pitstop.core.evidence import NOWHERE, Line
from pitstop.core.ledger import Cause, Ledger, Row
from pitstop.core.units import milliseconds

STILL: tuple[Cause, ...] = ("sync", "transfer", "launch", "python", "idle")
SILENT: tuple[Cause, ...] = ("launch", "python", "idle")  # of these, some have no known line


def cost_phrase(ms: float, ledger: Ledger) -> str:
    """``3.10 ms of 41.0 ms``, where work counts with its wait for a core."""
    return f"{milliseconds(ledger.with_waits(ms))} of {milliseconds(ledger.step_ms)}"


def idle_behind(ledger: Ledger, line: Line, micros: float) -> float:
    """The GPU's idle milliseconds that a line, which held Python up for so long, explains.

    What the ledger has for the line is its own; the ledger also has idle time of no known line,
    and of that it explains no more than the time that it took.
    """
    known = ledger.total(*STILL, where=line)
    nameless = sum(row.ms for row in ledger.chosen(*SILENT, where=NOWHERE))
    return max(known, min(micros / 1e3, nameless))


def idle_rows(ledger: Ledger, line: Line) -> tuple[Row, ...]:
    """The rows that this time is in: the line's own, then those of no line."""
    return ledger.chosen(*STILL, where=line) + ledger.chosen(*SILENT, where=NOWHERE)
