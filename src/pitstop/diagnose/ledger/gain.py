"""Gain: what all that was found can take off a step at most, taken together."""

from collections.abc import Sequence

from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger
from pitstop.core.units import milliseconds, percent

WORTH_SAYING = 0.01  # of the step; below this nobody would measure it


def at_most(findings: Sequence[Finding]) -> float:
    """The share of the step that the findings have at stake.

    It is the sum of what stands beside them: no two were given the same part of the step.
    """
    return min(1.0, sum(each.saving or 0.0 for each in findings if each.per == "step"))


def gain(findings: Sequence[Finding], ledger: Ledger | None) -> str:
    """``at most 42 % of each step: 312 ms would be 181 ms, 1.7 times as fast``."""
    share = at_most(findings)
    if ledger is None or share < WORTH_SAYING:
        return ""
    after_ms = ledger.step_ms * (1 - share)
    words = f"at most {percent(share)} of each step: {milliseconds(ledger.step_ms)} would be "
    times = ledger.step_ms / after_ms if after_ms else 0.0
    faster = f", {times:.{1 if times >= 1.1 else 2}f} times as fast" if times else ""
    return f"{words}{milliseconds(after_ms)}{faster}"
