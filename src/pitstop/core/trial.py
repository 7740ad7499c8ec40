"""Trial: one change the tuner tried, and what came of it."""

from dataclasses import dataclass
from typing import Literal

from pitstop.core.timing import Timing

Verdict = Literal["kept", "not-faster", "drifted", "noisy", "failed"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One change, tried alone on top of the changes already kept."""

    change: str
    verdict: Verdict
    before: Timing
    after: Timing | None = None  # None when the change failed to run
    drift: float | None = None  # largest relative error against the untouched output
    peak_bytes: int | None = None
    note: str = ""
