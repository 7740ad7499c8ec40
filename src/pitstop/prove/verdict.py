"""Verdict: better, worse, same or inconclusive by the time, stricter than ``compare`` is.

Whoever keeps what is proved asks many times, and a loop of edits keeps each mistake. So a
difference counts only if it is beyond the largest noise *and* all of its interval is beyond the
usual noise.
``benchmarks/prove.py`` tells how often that errs.
"""

from collections.abc import Sequence

from pitstop.compare.judge import judge
from pitstop.compare.quantities import Quantity, Sample
from pitstop.core.comparison import Comparison
from pitstop.tune.change import Goal

WANTED: dict[Goal, tuple[str, ...]] = {"time": ("step",), "memory": ("gpu-memory", "host-memory")}


def judged(
    before: Sequence[Sample], after: Sequence[Sample], metrics: Sequence[Quantity], goal: Goal
) -> tuple[Comparison, ...]:
    """All that can be read off the runs; the first one answers the question."""
    found = judge(before, after, metrics, strict=True)
    first = [each for wanted in WANTED[goal] for each in found if each.metric == wanted][:1]
    missing = Comparison(goal, "inconclusive", reason="it was not measured: give more --steps")
    return (*(first or [missing]), *(each for each in found if each not in first))
