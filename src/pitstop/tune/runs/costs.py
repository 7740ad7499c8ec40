"""Costs: what a fresh run takes, from what the first one took."""

import math
from dataclasses import dataclass

RUN_SECONDS = 6.0  # of steps in a timed run: as long as most scripts take to start
STEPS = (14, 60)  # timed in a run at least and at most: two of them make six blocks each
WARMUP = 3  # steps of a run that are not timed
SHORTEST_START_S = 0.1  # nothing starts faster; a run of which only steps were seen is no run


@dataclass(frozen=True, slots=True)
class Costs:
    """A fresh run: its start, and so many steps."""

    start_s: float  # until the first step, and after the last
    step_s: float
    steps: int  # warm-up included

    @property
    def run_s(self) -> float:
        """One fresh process."""
        return self.start_s + self.steps * self.step_s

    def pairs_s(self, number: int) -> float:
        """So many pairs of fresh runs."""
        return 2 * number * self.run_s

    def affordable(self, left_s: float) -> int:
        """How many pairs of fresh runs fit into what is left."""
        return max(0, int(left_s / self.pairs_s(1)))


def choose(start_s: float, step_s: float, steps: int | None = None) -> Costs:
    """Runs of a sensible length for a script with such steps, unless the user names one."""
    fewest, most = STEPS
    timed = min(most, max(fewest, math.ceil(RUN_SECONDS / step_s)))
    return Costs(max(SHORTEST_START_S, start_s), step_s, steps or WARMUP + timed)
