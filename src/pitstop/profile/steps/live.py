"""Steps: counts them while the script runs, to know when to inspect and when to stop.

What ends a step is the strongest kind of event seen so far: first model calls, then batches, then
optimizer steps. What was counted by a weaker kind was preparation, and the count begins anew; where
an earlier run has told the kind, and how many events make a step, those count from the beginning.
"""

import sys

import torch

from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.record.optimizers import Optimizers
from pitstop.profile.steps.ahead import will_train
from pitstop.profile.steps.pattern import KINDS, SELF_CUTTING, Cycle

PATIENCE = 4  # times as many batches or model calls: no preparation was longer


class Steps:
    """How many steps are done, and of which kind."""

    def __init__(self, known_kind: str = "", events: int = 1) -> None:
        self._known_kind = known_kind  # by an earlier run; else it has to be guessed when to stop
        self.kind = known_kind or KINDS[-1]
        self.cut_themselves = False  # whether they end by themselves, not only by the next one
        self.done = 0
        self._cycles = {kind: Cycle(events if kind == known_kind else 1) for kind in KINDS}
        self._awaits = False  # the first step of an optimizer

    def add(self, kind: str, number: int) -> bool:
        """Count an event of an optimizer, loader or module; say whether it ends a step."""
        cycle = self._cycles.get(kind)
        if cycle is None:
            return False
        ends = cycle.add(number)
        if kind != self.kind:
            if KINDS.index(kind) > KINDS.index(self.kind):
                return False
            self.kind = kind  # what was counted so far turns out to be preparation
        self.cut_themselves = kind in SELF_CUTTING
        self.done = cycle.complete
        return ends

    def are_enough(self, limit: int, optimizers: Optimizers) -> bool:
        """Whether the run may end; until an optimizer steps, all may be preparation for that.

        An optimizer that lives beside inference without gradients was loaded with its model.
        """
        if self.done < limit or self.cut_themselves or self.kind == self._known_kind:
            return self.done >= limit
        if self.done >= PATIENCE * limit:
            return True  # an optimizer that does not step by then is loaded, and never used
        self._awaits = (
            self._awaits
            or (torch.is_grad_enabled() and bool(optimizers.living()))
            or attempt(will_train, sys._getframe(1), otherwise=False)
        )
        return not self._awaits
