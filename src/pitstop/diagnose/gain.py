"""Gain: what all that was found can take off a step at most, taken together."""

from collections.abc import Sequence

from pitstop.core.finding import Finding
from pitstop.core.ledger import Ledger
from pitstop.core.units import milliseconds, percent

WORTH_SAYING = 0.01  # of the step; below this nobody would measure it


def at_most(findings: Sequence[Finding], ledger: Ledger | None) -> float:
    """The share of the step that the findings have at stake; never what the hardware needs.

    Notes are left out: what they say is small, or must be decided by somebody.
    """
    if ledger is None:
        return 0.0
    claimed = sum(
        each.saving or 0.0 for each in findings if each.per == "step" and each.severity != "note"
    )
    return min(claimed, 1.0 - ledger.share(ledger.floor_ms or 0.0))


def gain(findings: Sequence[Finding], ledger: Ledger | None) -> str:
    """``at most 42 % of each step: 312 ms would be 181 ms, 1.7 times as fast``."""
    share = at_most(findings, ledger)
    if ledger is None or share < WORTH_SAYING:
        return ""
    after_ms = ledger.step_ms * (1 - share)
    words = f"at most {percent(share)} of each step: {milliseconds(ledger.step_ms)} would be "
    times = ledger.step_ms / after_ms if after_ms else 0.0
    faster = f", {times:.{1 if times >= 1.1 else 2}f} times as fast" if times else ""
    return f"{words}{milliseconds(after_ms)}{faster}"
