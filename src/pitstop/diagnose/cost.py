"""Cost: what a line cost the step, and how a sentence says it."""

from pitstop.core.evidence import Line
from pitstop.core.ledger import Ledger
from pitstop.core.units import milliseconds


def of_step(ms: float, ledger: Ledger) -> str:
    """``3.10 ms of 41.0 ms``."""
    return f"{milliseconds(ms)} of {milliseconds(ledger.step_ms)}"


def idle_behind(ledger: Ledger, line: Line, micros: float) -> float:
    """The GPU's idle milliseconds that a line, which held Python up for so long, explains.

    What the ledger has for the line is its own; the ledger also has idle time of no known line,
    and of that it explains no more than the time that it took.
    """
    known = ledger.total("sync", "transfer", "launch", "python", "idle", where=line)
    causes = ("launch", "python", "idle")
    nameless = sum(row.ms for row in ledger.rows if row.cause in causes and not row.where.path)
    return max(known, min(micros / 1e3, nameless))
