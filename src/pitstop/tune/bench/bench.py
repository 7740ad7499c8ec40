"""Bench: twins and blocks of an unedited script, all of them in as few starts as it survives."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from pitstop.compare.pairs import LOOKS, Pairs
from pitstop.core.trial import Verdict
from pitstop.core.units import minutes
from pitstop.tune.bench.process import EndedError, Process, Start
from pitstop.tune.bench.questions import BLOCK, TWIN, Answer, Question
from pitstop.tune.checked import Changes, RunError, label
from pitstop.tune.guard.twins import Twins
from pitstop.tune.plan import Outcome
from pitstop.tune.runs.looks import tell_enough
from pitstop.tune.runs.machine_lock import clock

SLOWEST = 10  # times as long as the usual step: such a change is none, and may hang
HANGS_S = 60.0  # what a question may take beside that; a compiler has what is left of the budget
BLOCK_SECONDS = (0.2, 0.8)  # of timed steps in a block: shorter ones are all hiccups
LONGEST_BLOCK = 20  # steps
LONG_STEP_S = 0.4  # what a switch leaves to the first step after it is nothing beside that
WAITS = 0.1  # of a block: loaders that cannot follow make some blocks long and others short
RESTARTS = 3  # of a script that ends by itself, for one question
FEWEST_S = 1.0  # that a question gets, whatever is left


@dataclass(frozen=True, slots=True)
class Kind:
    """What is done to the second pass of twins, beside the changes."""

    moved: str = ""  # the weights move by units of this precision
    units: int = 1
    draws: Literal["", "same", "others"] = ""  # random numbers, from a seed for both passes or each
    still: float = 1e-3  # share of the whole: what is less in one parameter is rounding
    itself: bool = False  # the changes are on in the first pass, too


class Bench(Protocol):
    """What a search may ask. What comes to nothing raises ``RunError``."""

    pace: "Pace"
    reserve_s: float  # of the budget, which no question may take
    whole: bool  # blocks are timed with all that a step waits for
    waited: bool  # some were timed without, since loaders could not follow

    def twins(self, on: Changes, number: int, kind: Kind) -> Twins:
        """Steps that happen twice, untouched and then with these changes.

        The kind says what else is done to the second pass.
        """

    def blocks(self, off: Changes, on: Changes) -> Pairs[float]:
        """Milliseconds of a step with the one and with the other, until a look tells enough."""

    def peaks(self, off: Changes, on: Changes) -> tuple[int | None, int | None]:
        """The most memory that a step takes with the one and with the other."""

    def draws_otherwise(self, changes: Changes) -> bool:
        """Whether random numbers have fallen elsewhere with them."""

    def setup_s(self, on: Changes) -> float | None:
        """How much longer the first step with these took than the next; null if nobody knows."""

    def lost(self, changes: Changes) -> tuple[str, ...]:
        """What the script would lose by them beside its numbers, in words."""

    def left_s(self) -> float:
        """How much of the budget is left."""

    def close(self) -> None:
        """End the process, if there is one: a fresh run must have the machine for itself."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the script takes."""

    start_s: float
    step_s: float

    @property
    def block(self) -> int:
        """Steps of a block."""
        shortest_s, longest_s = BLOCK_SECONDS
        block_s = min(longest_s, max(shortest_s, self.start_s / (2 * LOOKS[-1])))
        return min(LONGEST_BLOCK, max(1, math.ceil(block_s / self.step_s)))

    @property
    def lead(self) -> int:
        """Steps after a switch that are not timed."""
        return int(self.step_s < LONG_STEP_S)


class LiveBench:
    """A ``Bench`` of real processes, one after the other."""

    def __init__(
        self,
        start: Start,
        pace: Pace,
        ends_s: float,
        running: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._start = start
        self.pace = pace
        self._ends_s = ends_s
        self._running = running
        self._process: Process | None = None
        self._outcomes: dict[str, Outcome] = {}  # by what people call a change
        self._settled: list[Changes] = []  # sets of changes that have run before
        self._setups_s: dict[str, float] = {}  # by the names of a set: in its first twin
        self.starts = 0
        self._without_waits = False
        self.reserve_s = 0.0
        self.whole = self.waited = False

    def twins(self, on: Changes, number: int, kind: Kind) -> Twins:
        """Some, as far as they are not plainly wrong."""
        found: list[Answer] = []
        took_s: list[float] = []
        for seed in range(number):
            others = seed + number * (kind.draws == "others")
            question = Question(
                TWIN,
                self._places(on) if kind.itself else (),
                self._places(on),
                moved=kind.moved,
                units=kind.units,
                seed=seed if kind.draws else None,
                seed_on=others if kind.draws else None,
                still=kind.still,
            )
            begun_s, starts = clock(), self.starts
            answer = self._ask(question, on, 2)
            took_s += [clock() - begun_s] if starts == self.starts else []
            if answer.problem:
                raise RunError("not-applicable", answer.problem)
            found.append(answer)
            if answer.wrong:
                break
        if len(took_s) > 1:
            self._setups_s.setdefault(names(on), max(0.0, took_s[0] - min(took_s[1:])))
        return Twins(tuple(found))

    def blocks(self, off: Changes, on: Changes) -> Pairs[float]:
        """In the order off on, on off, off on ..."""
        self._settle(on)
        self._settle(off)
        times: Pairs[float] = Pairs()
        self._without_waits = False
        while len(times.before) < LOOKS[-1] and not tell_enough(times):
            number = 2 * len(times.before)
            timed_so = self._without_waits
            first, second = (
                self._block(on if is_on(each) else off) for each in (number, number + 1)
            )
            if timed_so != self._without_waits:  # a block has waited for data: all anew
                times = Pairs()
                continue
            before, after = (second, first) if is_on(number) else (first, second)
            times = Pairs((*times.before, before), (*times.after, after))
            if self.left_s() <= 0:
                break
        return times

    def peaks(self, off: Changes, on: Changes) -> tuple[int | None, int | None]:
        """Those of a block each."""
        self._settle(on)
        one, other = (self._ask(self._timed(each), each, self.pace.block) for each in (off, on))
        return one.peak_bytes, other.peak_bytes

    def draws_otherwise(self, changes: Changes) -> bool:
        """As the changes have found it."""
        known = (self._outcomes.get(label(each)) for each in changes)
        return any(each is not None and each.effect == "other-randomness" for each in known)

    def setup_s(self, on: Changes) -> float | None:
        """As the first twins with them have shown."""
        return self._setups_s.get(names(on))

    def lost(self, changes: Changes) -> tuple[str, ...]:
        """As the changes have said."""
        known = (self._outcomes.get(label(each)) for each in changes)
        return tuple(dict.fromkeys(text for each in known if each for text in each.lost))

    def left_s(self) -> float:
        """By the clock, without the time that others had."""
        return self._ends_s - clock()

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process:
            self._process.close()
            self._process = None

    def _settle(self, on: Changes) -> None:
        """Steps that nobody times: a compiler may look at new shapes, algorithms are chosen."""
        if on not in self._settled:
            self._ask(Question(BLOCK, on=self._places(on)), on, 2)
            self._settled.append(on)

    def _block(self, on: Changes) -> float:
        answer = self._ask(self._timed(on), on, self.pace.block + self.pace.lead)
        if answer.compiled:
            answer = self._ask(self._timed(on), on, self.pace.block + self.pace.lead)
        waits = answer.waited_ms > WAITS * (answer.ms or 0.0)
        if waits and not (self.whole or self._without_waits):
            self._without_waits = self.waited = True
        if answer.ms is None:
            raise RunError("failed", answer.problem or "no block of steps came to its end")
        return answer.ms

    def _timed(self, on: Changes) -> Question:
        pace = self.pace
        return Question(
            BLOCK,
            on=self._places(on),
            steps=pace.block,
            lead=pace.lead,
            without_waits=self._without_waits,
        )

    def _places(self, changes: Changes) -> tuple[int, ...]:
        return tuple(self._start.plan.changes.index(each) for each in changes)

    def _ask(self, question: Question, on: Changes, steps: int) -> Answer:
        """The answer, from a new process where the last one has ended by itself meanwhile."""
        for _ in range(RESTARTS):
            process = self._process or self._begin()
            new = any(label(each) not in self._outcomes for each in on)
            patience_s = SLOWEST * steps * self.pace.step_s + HANGS_S
            left_s = max(self.left_s() - self.reserve_s, FEWEST_S)
            patience_s += left_s if new or on not in self._settled else 0.0
            allowed_s = min(patience_s, left_s)
            try:
                answer = process.ask(question, allowed_s)
            except EndedError as ended:
                self.close()
                self._settled.clear()
                if ended.how.error:
                    raise _refused(ended, allowed_s < patience_s) from None
                continue
            self._note(answer, on)
            return answer
        raise RunError("failed", "the script ends before an answer: let it run for more steps")

    def _begin(self) -> Process:
        self._running(f"starts the script ({minutes(max(0.0, self.left_s()))} left)")
        self.starts += 1
        patience_s = SLOWEST * (self.pace.start_s + 10 * self.pace.step_s) + HANGS_S
        try:
            self._process = Process(self._start, min(patience_s, max(self.left_s(), FEWEST_S)))
        except EndedError as ended:
            raise _refused(ended, self.left_s() <= 0) from None
        return self._process

    def _start_anew(self) -> None:
        """What has declined stays off in its process, though beside others it has worked."""
        self.close()
        self._settled.clear()

    def _note(self, answer: Answer, on: Changes) -> None:
        """A change that could not be put on, or found nothing to do, has told why."""
        changes = self._start.plan.changes
        for wanted in on:
            outcome = answer.outcomes[changes.index(wanted)]
            before = self._outcomes.get(label(wanted))
            self._outcomes[label(wanted)] = outcome
            if outcome.declined and before and before.applied and not before.declined:
                self._start_anew()
            if outcome.failed:
                raise RunError("failed", outcome.declined)
            if outcome.declined:
                raise RunError("not-applicable", outcome.declined)


def names(changes: Changes) -> str:
    """A set of changes as people read it."""
    return " + ".join(map(label, changes))


def is_on(number: int) -> bool:
    """Whether the changes are on in this block, counted from 0: off on, on off, off on ..."""
    return number % 4 in {1, 2}


def _refused(ended: EndedError, hasty: bool) -> RunError:
    how = ended.how
    if how.timed_out and hasty:
        return RunError("not-applicable", f"no room in the budget: it {how.error}", hasty=True)
    verdict: Verdict = "out-of-memory" if how.out_of_memory else "failed"
    return RunError(verdict, how.error or "the script ended before its first steps were done")
