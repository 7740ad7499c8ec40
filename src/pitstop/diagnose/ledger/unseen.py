"""Unseen: why nobody looked into a step, and how to get it looked into."""

from pitstop.core.evidence import Evidence
from pitstop.core.ledger import Ledger
from pitstop.core.units import count

BASELINE_STEPS = 5  # undisturbed, after warm-up and before the first inspected one
INSPECTED_STEPS = 2  # on a CPU that is all
TIMELINE_STEPS = 3  # on a GPU: one between the profilers, then two in which kernels are timed


def why_unseen(evidence: Evidence, ledger: Ledger) -> str:
    """Why the ledger does not know what the step was spent on; empty: it knows."""
    if not ledger.total("unseen"):
        return ""
    what = "The GPU was not measured" if ledger.device == "cuda" else "Not inspected"
    if not missing_steps(evidence, ledger):
        return f"{what}: no step was looked into with torch's profiler"
    return f"{what}: the run ended before the step that is looked into"


def how_to_measure(evidence: Evidence, ledger: Ledger) -> str:
    """What to do about it."""
    missing = missing_steps(evidence, ledger)
    if not missing:
        return "run it again with --inspect 2, and without a profiler of its own"
    sooner = ", or begin sooner with a smaller --warmup" if evidence.warmup_steps else ""
    return f"let it run for {count(missing, 'more step')}{sooner}"


def missing_steps(evidence: Evidence, ledger: Ledger) -> int:
    """How many steps the run should have gone on for."""
    looking = TIMELINE_STEPS if ledger.device == "cuda" else 0
    needed = evidence.warmup_steps + BASELINE_STEPS + INSPECTED_STEPS + looking
    return max(0, needed - len(evidence.steps))
