"""Trial: one change the tuner tried, and what came of it."""

from dataclasses import dataclass
from typing import Literal

from pitstop.core.comparison import Comparison
from pitstop.core.timing import Timing

Verdict = Literal[
    "kept",
    "what-if",  # faster with the same numbers, by an edit of the source alone
    "not-faster",
    "drifted",
    "noisy",
    "failed",
    "out-of-memory",
    "not-applicable",
]

Reason = Literal["", "budget", "passenger"]  # what a verdict is due to, where that matters later


@dataclass(frozen=True, slots=True)
class Trial:
    """One change, tried alone on top of the changes already kept."""

    change: str  # with its options: "loader workers=2"
    verdict: Verdict
    before: Timing | None = None  # of the runs beside it; null when it was never run
    after: Timing | None = None  # null when the change failed to run
    step: Comparison | None = None  # step time with its interval
    memory: Comparison | None = None  # peak
    predicted: float | None = None  # the share of the step that a finding promised at most
    drift: float | None = None  # largest relative error against the untouched numbers
    tolerance: float | None = None  # what rounding alone would do to them
    note: str = ""
    reason: Reason = ""  # budget: there was no room for it; passenger: others do what it does
