"""Pace: what the steps of a run are like, but for those in which an epoch begins."""

import math
from itertools import pairwise
from statistics import fmean

from pitstop.compare.quantities import step_ms
from pitstop.core.evidence import Evidence, Step
from pitstop.tune.plan import SHORTEST_EPOCH

DEVIATIONS = 1.128  # by which two draws of normal noise are apart on average


def slow_s(evidence: Evidence) -> float:
    """What the steps of the warm-up took beyond the usual: compiling, choosing algorithms."""
    first = evidence.steps[: evidence.warmup_steps]
    usual_ms = len(first) * (step_ms(evidence) or 0.0)
    return max(0.0, sum(step.total_ms for step in first) - usual_ms) / 1e3


def waits(evidence: Evidence) -> float:
    """The share of its steps that is spent on waiting for data, where no epoch begins."""
    usual = _usual(evidence)
    return fmean(step.data_wait_ms for step in usual) / fmean(step.total_ms for step in usual)


def noise(evidence: Evidence) -> float:
    """The deviation of single steps from those beside them, as a share: drift is no noise."""
    logs = [math.log(step.total_ms) for step in _usual(evidence) if step.total_ms > 0]
    apart = [abs(one - other) for one, other in pairwise(logs)]
    return fmean(apart) / DEVIATIONS if apart else 0.0


def _usual(evidence: Evidence) -> list[Step]:
    """Its steps but for those in which an epoch begins: they wait longest.

    Of a run that goes on in blocks epochs are counted that begin later.
    """
    steps = evidence.steady
    places = sorted(range(len(steps)), key=lambda place: steps[place].data_wait_ms)
    epochs = max((each.starts for each in evidence.loaders), default=0)  # the first in the warm-up
    usual = places[: len(places) - min(max(0, epochs - 1), len(places) // SHORTEST_EPOCH)]
    return [steps[place] for place in sorted(usual)]
