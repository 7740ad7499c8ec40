"""Gates: limits that a comparison must keep, such as ``step<=+3%``.

A gate passes when the whole interval keeps the limit, and fails when the whole interval is beyond
it and the difference is more than noise. A limit of no change (``step<=0%``) is kept by what is
the same. Everything between is inconclusive.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from pitstop.compare.drift import LOSS
from pitstop.compare.quantities import LOWER_IS_BETTER, NAMES
from pitstop.core.comparison import Comparison
from pitstop.core.errors import PitstopError

Result = Literal["pass", "fail", "inconclusive"]

SHAPE = re.compile(r"\s*([\w-]+)\s*(<=|>=)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*%\s*")
ROUNDING = 1e-9  # what 1.05 - 1 is more than 0.05: a limit is kept by what just reaches it
MEMORY = ("gpu-memory", "host-memory")  # what "memory" means: the first of them that is known


@dataclass(frozen=True, slots=True)
class Gate:
    """One limit on the change of one metric; ``limit`` is a share, 0.03 for +3 %."""

    text: str
    metric: str
    at_most: bool
    limit: float


def parse(text: str, higher: Collection[str] = (), lower: Collection[str] = ()) -> Gate:
    """A gate as typed; ``higher`` and ``lower`` name the user's own metrics by what is better."""
    match = SHAPE.fullmatch(text)
    if not match:
        raise PitstopError(f"--gate {text!r}: write it like 'step<=+3%' or 'samples>=-3%'")
    metric, sign, number = match.groups()
    if not math.isfinite(float(number)):
        raise PitstopError(f"--gate {text!r}: no such number; write it like 'step<=+3%'")
    known = ["memory", *NAMES, *higher, *lower]
    if metric not in known:
        raise PitstopError(f"--gate {text!r}: no metric {metric!r}; there is {', '.join(known)}")
    better_low = metric in {*LOWER_IS_BETTER, "memory", *lower}
    if (sign == "<=") != better_low:
        want = "lower, so write <=" if better_low else "higher, so write >="
        raise PitstopError(f"--gate {text!r}: {metric} is better when {want}")
    return Gate(text, metric, sign == "<=", float(number) / 100)


def find(gate: Gate, comparisons: Sequence[Comparison]) -> Comparison | None:
    """The comparison that a gate is about; ``None`` where that was not measured."""
    wanted = MEMORY if gate.metric == "memory" else (gate.metric,)
    by_name = {each.metric: each for each in comparisons}
    return next((by_name[name] for name in wanted if name in by_name), None)


def result(gate: Gate, comparisons: Sequence[Comparison]) -> Result:
    """Whether the limit is kept."""
    found = find(gate, comparisons)
    if found is None:
        return "inconclusive"
    if found.low is None or found.high is None:  # too few pairs, or a loss that is no number
        return "fail" if found.verdict == "worse" else "inconclusive"
    sign = 1 if gate.at_most else -1
    least, most = sorted((sign * (found.low - 1), sign * (found.high - 1)))
    limit = sign * gate.limit
    exact = found.metric == LOSS  # no noise is forgiven but what runs of one command show
    if most <= limit + ROUNDING or (found.verdict == "same" and limit >= 0 and not exact):
        return "pass"
    counts = exact or limit < 0 or found.verdict in {"better", "worse"}
    return "fail" if least > limit and counts else "inconclusive"
