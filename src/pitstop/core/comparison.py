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


@dataclass(frozen=True, slots=True)
class Parted:
    """Where the numbers of two sides part first, by more than rounding explains."""

    reason: str  # in words
    quantity: str = ""  # "loss", "gradient norm", ...; empty: what parts is no number of a step
    step: int | None = None  # from 1
    module: str = ""  # the first that returns something else, or has another gradient
    off: float | None = None  # relative difference
    allowed: float | None = None  # what rounding alone would do
