"""Steps: counts them while the script runs, to know when to inspect and when to stop.

What ends a step is the strongest kind of event seen so far: first model calls, then batches, then
optimizer steps. What was counted by a weaker kind was preparation, and the count begins anew.
"""

import sys

from pitstop.profile.ahead import will_train
from pitstop.profile.attempt import attempt
from pitstop.profile.optimizers import Optimizers
from pitstop.profile.pattern import KINDS, Cycle

SELF_CUTTING = ("marked", "optimizer")  # with these a step has an end of its own


class Steps:
    """How many steps are done, and of which kind."""

    def __init__(self) -> None:
        self.kind = KINDS[-1]
        self._cycles = {kind: Cycle() for kind in KINDS}
        self._awaits = False  # the first step of an optimizer

    @property
    def done(self) -> int:
        """Steps finished so far."""
        return self._cycles[self.kind].complete

    @property
    def cut_themselves(self) -> bool:
        """Whether a step has an end of its own, not only the begin of the next one."""
        return self.kind in SELF_CUTTING

    def is_stronger(self, kind: str) -> bool:
        """Whether what was counted so far turns out to be preparation."""
        return kind != self.kind and kind in KINDS[: KINDS.index(self.kind)]

    def add(self, kind: str, number: int) -> bool:
        """Count an event of an optimizer, loader or module; say whether it ends a step."""
        if kind not in KINDS:
            return False
        if self.is_stronger(kind):
            self.kind = kind
        return self._cycles[kind].add(number) and kind == self.kind

    def are_enough(self, limit: int, optimizers: Optimizers) -> bool:
        """Whether the run may end; until an optimizer steps, all may be preparation for that."""
        if self.done < limit or self.cut_themselves:
            return self.done >= limit
        self._awaits = (
            self._awaits
            or bool(optimizers.living())
            or attempt(will_train, sys._getframe(1), otherwise=False)
        )
        return not self._awaits
