"""Twin steps: a step happens twice from one state and with one batch, off and then on."""

from collections.abc import Generator
from dataclasses import dataclass

from pitstop.tune.bench import distances
from pitstop.tune.bench.doubling import Doubling
from pitstop.tune.bench.outside import Outside
from pitstop.tune.bench.passes import Peak, move, seed
from pitstop.tune.bench.questions import TWIN, Answer, Question
from pitstop.tune.bench.state import Living, Snapshot, fits_on_gpu
from pitstop.tune.bench.switches import Switches
from pitstop.tune.bench.watching import Watching

TRIES = 4  # to repeat a step that no epoch begins in
SAME = 0.01  # share by which losses of one batch may differ: a schedule or an atomic sum does less


@dataclass(frozen=True, slots=True)
class Way:
    """How a step is repeated: what it is given the second time."""

    ahead: int = 0  # batches that a library has read ahead; accelerate reads one
    outside: bool = False  # what comes from no loader is the same, too


WAYS = (Way(), Way(1), Way(2), Way(3), Way(outside=True))  # tried in this order


class TwinSteps:
    """Answers questions by steps that happen twice; goes on at the end of each."""

    def __init__(
        self, switches: Switches, watching: Watching, doubling: Doubling, outside: Outside
    ) -> None:
        self._switches, self._watching = switches, watching
        self._doubling, self._outside = doubling, outside
        self._way: Way | None = None  # how a step is repeated; null: not known

    def answer(self, question: Question) -> Generator[None, None, Answer]:
        """The answer, two steps later; the first question also finds how a step is repeated."""
        if self._way is None:
            self._way = yield from self._find_way()
        answer = None
        if self._way is not None:
            answer = yield from self._repeated(question, self._way)
        return answer or Answer("its steps cannot be repeated: the model is given something else")

    def _find_way(self) -> Generator[None, None, Way | None]:
        """How the untouched step gives the same numbers twice."""
        for way in WAYS:
            if (yield from self._repeated(Question(TWIN), way)) is not None:
                return way
        return None

    def _repeated(self, question: Question, way: Way) -> Generator[None, None, Answer | None]:
        self._doubling.begin(way.ahead)
        try:
            return (yield from self._twin_of_step(question, way))
        finally:
            self._doubling.end()
            self._outside.end()

    def _twin_of_step(self, question: Question, way: Way) -> Generator[None, None, Answer | None]:
        """The answer; null where the two passes were not given the same."""
        self._switches.turn(question.off)
        if way.ahead:
            yield  # the batches that were read before, and the rest of their step
        for _ in range(TRIES):
            living = Living()
            to_host = not fits_on_gpu(living)
            start = Snapshot(living, to_host)
            seed(question.seed)
            if way.outside:
                self._outside.begin(living)
            first = self._watching.begin()
            yield
            if self._doubling.epoch_begun or self._outside.too_much:
                continue
            off = Snapshot(living, to_host)
            start.put_back()
            starts = move(living, question)
            self._switches.turn(question.on)
            seed(question.seed_on)
            self._outside.again(living)
            second = self._watching.begin()
            peak = Peak()
            yield
            self._watching.end()
            peak_bytes = peak.bytes()
            found, wrong = distances.of_step(
                living, start, off, starts, question.still, self._switches.left(question.on)
            )
            self._switches.turn(question.off)
            off.put_back()
            if self._doubling.epoch_begun:
                continue
            drawn = question.seed != question.seed_on
            null = question.on == question.off and not (question.moved or drawn)
            lost, less = distances.of_losses(second.numbers(), first.numbers())
            same = (
                drawn
                or self._switches.spares(question.on)
                or second.is_given(first, None if null else 1)
            )
            if null and not (same and max(lost.values(), default=0.0) <= SAME):
                return None
            if not same:
                wrong = wrong or "its model is given something else"
            if first.calls != second.calls and not self._switches.spares(question.on):
                less = f"its models are called {second.calls} times instead of {first.calls}"
            both = tuple(first.numbers()), tuple(second.numbers())
            return Answer(
                distances=found | lost,
                losses=both,
                wrong=wrong or less,
                outcomes=self._switches.outcomes(),
                peak_bytes=peak_bytes,
            )
        return Answer("an epoch begins in each of its steps")
