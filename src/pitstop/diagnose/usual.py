"""Usual: the steps that tell what a step is like, without the few that are quite unlike it."""

from statistics import fmean

from pitstop.core.evidence import Evidence, Step


def usual_steps(evidence: Evidence) -> list[Step]:
    """The middle half of the undisturbed steps by their length.

    Where most steps wait a little and the first of each epoch waits long, these wait a little;
    where every other step waits, they wait half as long.
    """
    steps = sorted(evidence.steady, key=lambda step: step.total_ms)
    quarter = len(steps) // 4
    return steps[quarter : len(steps) - quarter]


def usual_wait_ms(evidence: Evidence, dry: bool) -> float:
    """The mean wait for data of the usual steps; ``dry``: only while the GPU had nothing to do."""
    waits = [step.dry_ms if dry else step.data_wait_ms for step in usual_steps(evidence)]
    known = [wait for wait in waits if wait is not None]
    return fmean(known) if known else 0.0
