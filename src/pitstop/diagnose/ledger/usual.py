"""Usual: the steps that tell what a step is like, without the few that are quite unlike it."""

from statistics import median

from pitstop.core.evidence import Evidence, Step


def usual_steps(evidence: Evidence) -> list[Step]:
    """The middle half of the undisturbed steps by their length.

    Where most steps wait a little and the first of each epoch waits long, these wait a little;
    where every other step waits, they wait half as long.
    """
    steps = sorted(evidence.steady, key=lambda step: step.total_ms)
    quarter = len(steps) // 4
    return steps[quarter : len(steps) - quarter]


def usual_core_wait_ms(evidence: Evidence) -> float:
    """What a step waits for a core beside its wait for data; zero where nobody counted it."""
    known = [
        each.core_wait_ms * (1 - each.data_wait_ms / each.total_ms)
        for each in evidence.steady
        if each.core_wait_ms is not None and each.total_ms > each.data_wait_ms
    ]
    return median(known) if known else 0.0


def usual_share_on_core(evidence: Evidence) -> float:
    """The part of a step's own work in which the thread had a core; all of it where none waited."""
    works = [step.total_ms - step.data_wait_ms for step in evidence.steady]
    work_ms = median(works) if works else 0.0
    return max(0.0, 1 - usual_core_wait_ms(evidence) / work_ms) if work_ms else 1.0


def usual_wait_ms(evidence: Evidence, dry: bool) -> float:
    """What waiting for data adds to the median step; ``dry``: while the GPU had nothing to do.

    A mean would do for that, but where epochs are short, one that is begun outweighs the step.
    """
    steps = [step for step in evidence.steady if not dry or step.dry_ms is not None]
    if not steps:
        return 0.0
    works = [step.total_ms - ((step.dry_ms or 0.0) if dry else step.data_wait_ms) for step in steps]
    return max(0.0, median(step.total_ms for step in steps) - median(works))
