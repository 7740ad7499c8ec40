"""Clock: the run as one line of time, along which a cursor moves, split into phases.

All that passes goes to exactly one phase, so the phases of a slice add up to the slice. Times are
whole microseconds. This happens several times in every step of every run, right after the script
has filled the caches with its own data: there a call costs what it touches, so there are few.
"""

from time import perf_counter_ns

PHASES = ("wait", "forward", "backward", "optimizer", "saving", "other")
WAIT, FORWARD, BACKWARD, OPTIMIZER, SAVING, OTHER = range(len(PHASES))


class Clock:
    """Where the time has gone since the last slice."""

    def __init__(self) -> None:
        self.open: list[int] = []  # phases begun and not ended
        self.at_us = 0  # when that happened which is accounted for now; 0: it happens now
        self.begun_us = self.cursor_us = now_us()
        self.spent = [0] * len(PHASES)  # in this slice

    @property
    def phase(self) -> str:
        """The name of the phase that runs now; empty between two."""
        return PHASES[self.open[-1]] if self.open else ""

    def enter(self, phase: int) -> bool:
        """Begin a phase; false where it does not count, because it is nested in another.

        What lies between the last event and a backward pass is the forward pass. An optimizer
        step may run both inside itself (a closure), and then they count as themselves.
        """
        if self.open and (self.open != [OPTIMIZER] or phase == SAVING):
            return False
        now = self.at_us or perf_counter_ns() // 1000
        self.spent[FORWARD if phase == BACKWARD else OTHER] += now - self.cursor_us
        self.cursor_us = now
        self.open.append(phase)
        return True

    def leave(self) -> int:
        """End the phase that ``enter`` began last; return its microseconds."""
        now = self.at_us or perf_counter_ns() // 1000
        passed = now - self.cursor_us
        self.spent[self.open.pop()] += passed
        self.cursor_us = now
        return passed

    def spend(self) -> None:
        """Count what has passed between two phases."""
        now = self.at_us or perf_counter_ns() // 1000
        self.spent[OTHER] += now - self.cursor_us
        self.cursor_us = now

    def skip(self) -> None:
        """What has passed is our own work, and belongs to no phase."""
        self.cursor_us = self.at_us or perf_counter_ns() // 1000


def now_us() -> int:
    """The clock that all times are read from."""
    return perf_counter_ns() // 1000
