"""Comparison: whether one quantity of a run became better, and how sure that is."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["better", "worse", "same", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of B against A. The truth lies between ``low`` and ``high``, 95 times of 100."""

    metric: str  # "step", "p95", ..., or the name of a metric of the user's own
    verdict: Outcome
    ratio: float | None = None  # B over A; 1 is no change, null where nothing was measured
    low: float | None = None  # ends of the interval around the ratio; null: too few pairs for one
    high: float | None = None
    pairs: int = 0  # adjacent runs of A and B, or blocks of two recordings
    reason: str = ""  # why this verdict
    before: float | None = None  # median of A, in the unit
    after: float | None = None
    unit: str = ""  # "ms", "bytes", "samples/s", ...; empty: a plain number
