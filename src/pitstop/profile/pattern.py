"""Patterns: which of a run's events end a step.

A plain loop calls one optimizer again and again; a GAN calls two in turn; a critic may be stepped
five times for each generator step. The step is the shortest cycle that explains all calls so far.
"""

from collections.abc import Hashable, Sequence

KINDS = ("marked", "optimizer", "loader", "module")  # what may end a step, the strongest first
LONGEST = 64  # calls in one cycle; beyond this, what repeats is the script, not the step


class Cycle:
    """Follows a sequence of calls and knows how many whole cycles are complete."""

    def __init__(self) -> None:
        self._calls: list[Hashable] = []
        self.calls = 0
        self.length = 1

    @property
    def complete(self) -> int:
        """Whole cycles so far."""
        return self.calls // self.length

    def add(self, call: Hashable) -> bool:
        """Take one more call; say whether it completes a cycle."""
        self.calls += 1
        if len(self._calls) < 2 * LONGEST:  # later calls cannot change the cycle
            self._calls.append(call)
            if self.calls > self.length and call != self._calls[-1 - self.length]:
                self.length = shortest_cycle(self._calls)
        return self.calls % self.length == 0


def shortest_cycle(calls: Sequence[Hashable]) -> int:
    """Length of the shortest cycle that the calls repeat; the last may be partial."""
    for length in range(1, len(calls)):
        if _explains(length, calls):
            return length
    return max(1, len(calls))


def _explains(length: int, calls: Sequence[Hashable]) -> bool:
    return all(calls[index] == calls[index - length] for index in range(length, len(calls)))
