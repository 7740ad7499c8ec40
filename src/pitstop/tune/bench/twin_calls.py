"""Twin calls: each call of a model in one step happens twice, where no step can be repeated."""

from collections.abc import Callable, Generator
from typing import Any

from pitstop.tune.bench import distances
from pitstop.tune.bench.doubling import copied
from pitstop.tune.bench.passes import Peak, move, seed
from pitstop.tune.bench.questions import Answer, Question
from pitstop.tune.bench.state import Generators, Living, Snapshot, fits_on_gpu
from pitstop.tune.bench.switches import Switches
from pitstop.tune.bench.watching import Watching
from pitstop.tune.inside.numbers import tensors_in

MOST_CALLS = 50  # steps until a model is called


class TwinCalls:
    """Answers questions by calls that happen twice; goes on at the end of each step."""

    def __init__(self, switches: Switches, watching: Watching) -> None:
        self._switches, self._watching = switches, watching
        self.calling = False  # the second time

    def answer(self, question: Question) -> Generator[None, None, Answer]:
        """Each call of a model in one step happens twice."""
        self._switches.turn(question.off)
        found: dict[str, float] = {}
        wrong: list[str] = []
        peaks: list[int] = []
        living = Living()

        def twice(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
            kept = copied(given), copied(named)
            generators = Generators()
            seed(question.seed)
            null = call(*given, **named)  # which may end the step before, and with it the twin
            if self._watching.around_call is not twice:
                return null
            after, before = Generators(), Snapshot(living, not fits_on_gpu(living))
            held = [each.detach().clone() for each in tensors_in(null)]
            generators.put_back()
            move(living, question)
            self._switches.turn(question.on)
            seed(question.seed_on)
            peak = Peak()
            self.calling = True
            try:
                ours = call(*kept[0], **kept[1])
            finally:
                self.calling = False
            peaks.append(peak.bytes() or 0)
            apart, other = distances.of_outputs(tensors_in(ours), held)
            self._switches.turn(question.off)
            before.put_back()
            after.put_back()
            for name, each in apart.items():
                found[name] = max(each, found.get(name, 0.0))
            wrong.extend(filter(None, [other]))
            return null

        self._watching.around_call = twice
        try:
            for _ in range(MOST_CALLS):
                yield
                if found or wrong:
                    break
        finally:
            self._watching.around_call = None
        return Answer(
            "" if found or wrong else "no model was called in a step",
            distances=found,
            wrong=wrong[0] if wrong else "",
            outcomes=self._switches.outcomes(),
            peak_bytes=max(peaks, default=0) or None,
        )
