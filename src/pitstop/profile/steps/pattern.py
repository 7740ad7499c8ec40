"""Patterns: which of a run's events end a step.

A plain loop calls one optimizer again and again; a GAN calls two in turn; a critic may be stepped
five times for each generator step. The step is the shortest cycle that explains all calls. Where
none does (a script skipped a step, a short fit came first, every epoch has an optimizer of its
own), it is the one that explains most of the latest calls.
"""

from collections.abc import Hashable, Iterator, Sequence

KINDS = ("marked", "optimizer", "loader", "module")  # what may end a step, the strongest first
SELF_CUTTING = ("marked", "optimizer")  # of these: a step has an end of its own, not only the next
OUTSIDE = "outside"  # ends what belongs to no step: the script marks where its steps begin
LONGEST = 64  # calls in one cycle; beyond this, what repeats is the script, not the step
LATEST = 2 * LONGEST  # calls looked at: two of the longest cycles
MOST_KEPT = 2 * LATEST  # calls; then the older half is dropped
NEARLY = 0.05  # share of the calls by which a shorter cycle may explain less than a longer one
MOSTLY = 0.7  # share of the calls; a critic's five in a row explain two thirds of six


class Cycle:
    """Follows a sequence of calls and knows how many whole cycles are complete."""

    def __init__(self, length: int = 1) -> None:
        self._latest: list[Hashable] = []
        self.calls = 0
        self.complete = 0  # whole cycles so far
        self.length = length  # as far as is known
        self._before = 0  # calls that belong to no cycle: a script skipped the other optimizer
        self._left = False  # whether the cycle does not fit, or is not settled

    def add(self, call: Hashable) -> bool:
        """Take one more call; say whether it completes a cycle."""
        self.calls += 1
        latest = self._latest
        latest.append(call)
        if len(latest) > self.length and call != latest[-1 - self.length]:
            self._left = True
        if self._left and (self.calls <= LATEST or len(latest) == MOST_KEPT):
            self.length = shortest_cycle(latest)  # seldom: it takes milliseconds
            ends = list(cycle_ends(latest))
            self._left = not ends  # a cycle was not seen twice yet
            self._before = (self.calls - len(latest) + 1 + ends[-1]) % self.length if ends else 0
        if len(latest) == MOST_KEPT:
            del latest[:LATEST]
        self.complete, rest = divmod(self.calls - self._before, self.length)
        return rest == 0


def shortest_cycle(calls: Sequence[Hashable]) -> int:
    """Length of the shortest cycle that the latest calls repeat; the last may be partial."""
    latest = calls[-LATEST:]
    shares = {length: _share(length, latest) for length in range(1, len(latest))}
    twice = {length: share for length, share in shares.items() if 2 * length <= len(latest)}
    best = max(twice.values(), default=0.0)
    if best >= MOSTLY:
        enough = best if best == 1 else best - NEARLY
        return next(length for length, share in twice.items() if share >= enough)
    whole = (length for length, share in shares.items() if share == 1)
    return next(whole, max(1, min(LONGEST, len(latest))))


def cycle_ends(calls: Sequence[Hashable]) -> Iterator[int]:
    """Positions of the calls that end a cycle; calls that fit into none are passed over."""
    length = shortest_cycle(calls)
    if length == 1:
        yield from range(len(calls))  # whichever optimizer it is
        return
    begin = 0
    while begin + length <= len(calls):
        end = _run_end(calls, begin, length)
        if len(set(calls[begin : begin + length])) == 1:
            begin = max(begin, end - length) + 1  # one optimizer alone: what came before the cycles
        elif end - begin < min(2 * length, len(calls)):
            begin += 1  # once is no cycle
        else:
            ends = range(begin + length - 1, end, length)
            yield from ends
            begin = ends[-1] + 1


def _run_end(calls: Sequence[Hashable], begin: int, length: int) -> int:
    """Where the calls from ``begin`` on cease to be what they were a cycle before."""
    end = begin + length
    while end < len(calls) and calls[end] == calls[end - length]:
        end += 1
    return end


def _share(length: int, calls: Sequence[Hashable]) -> float:
    """How many of the calls are what they were a cycle before, 0 to 1."""
    pairs = zip(calls[length:], calls, strict=False)
    return sum(now == before for now, before in pairs) / (len(calls) - length)
