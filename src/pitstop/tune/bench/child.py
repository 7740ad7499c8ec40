"""Child: one process of the unedited script, in which everything that can be switched is tried.

It begins like any trial. After a warm-up it asks its parent at the end of each step what to do, and
waits for the answer: a twin, which is a step that happens twice from one state and with one batch,
or a block of steps that is timed. What the script learns meanwhile is thrown away.
"""

import atexit
import os
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import is_grad_enabled

from pitstop.tune.bench import distances
from pitstop.tune.bench.doubling import Doubling, copied
from pitstop.tune.bench.outside import Outside
from pitstop.tune.bench.questions import (
    CALL,
    END,
    TWIN,
    Answer,
    BenchPlan,
    Line,
    Question,
    read_bench_plan,
)
from pitstop.tune.bench.state import Generators, Living, Snapshot, fits_on_gpu, seed_all
from pitstop.tune.bench.switches import Switches
from pitstop.tune.bench.watching import Watching
from pitstop.tune.inside.device import empty_queue
from pitstop.tune.inside.made import Made
from pitstop.tune.inside.models import Models
from pitstop.tune.inside.numbers import set_seeds, tensors_in
from pitstop.tune.inside.script import Action, Script
from pitstop.tune.plan import Plan

KNOWN_AFTER = 10_000  # calls without a new model: data may be prepared by others for long
TRIES = 4  # to repeat a step that no epoch begins in, or a block
MOST_CALLS = 50  # steps until a model is called
MOVES = 12_345  # the seed of the directions in which weights are moved

SAME = 0.01  # share by which losses of one batch may differ: a schedule or an atomic sum does less


@dataclass(frozen=True, slots=True)
class Way:
    """How a step is repeated: what it is given the second time."""

    ahead: int = 0  # batches that a library has read ahead; accelerate reads one
    outside: bool = False  # what comes from no loader is the same, too


WAYS = (Way(), Way(1), Way(2), Way(3), Way(outside=True))  # tried in this order
Steps = Generator[None, None, None]  # goes on at the end of each step
Answers = Generator[None, None, Answer]  # likewise, until there is one


class Bench:
    """A listener to the steps of the script."""

    def __init__(self, plan: BenchPlan) -> None:
        self._plan = plan
        self._undos: list[Action] = []
        made, models = Made(self._undos), Models(self._undos, KNOWN_AFTER)
        made.watch_optimizers()
        self._outside = Outside()
        self._watching = Watching(models, self._undos, self._outside)
        self._doubling = Doubling(self._undos)
        self._steps_done = 0
        usual = Plan(seed=plan.seed, trains=plan.trains, earnest=True)
        build = partial(Script, plan=usual, made=made, models=models, undos=self._undos)
        self._switches = Switches(plan.fixed, plan.changes, build, self._rehearses)
        self._watching.listen()
        self._way: Way | None = None  # how a step is repeated; null: not known
        self._course = self._run()
        self._inside = False
        self._problem = ""

    def step_ended(self, done: int) -> bool:
        """Go on with whatever waits for the end of a step; whether all is told."""
        if self._inside or done <= self._steps_done:  # within a twin of a call; no step after all
            self._steps_done = done
            return False
        self._steps_done = done
        self._switches.step_ended()
        self._inside = True
        try:
            next(self._course)
        except StopIteration:
            return True
        finally:
            self._inside = False
            self._doubling.step_ended()
        return False

    def close(self) -> None:
        """Undo everything."""
        self._switches.close()
        while self._undos:
            self._undos.pop()()

    def _rehearses(self) -> bool:
        return self._plan.trains and not self._steps_done and not is_grad_enabled()

    def _run(self) -> Steps:
        for _ in range(self._plan.warmup):
            yield
        line = Line(self._plan)
        answer = Answer(outcomes=self._switches.outcomes())
        while True:
            question = line.ask(answer)
            if question.kind == END:
                return
            what = self._twin if question.kind == TWIN else self._block
            try:
                answer = yield from what(question)
            except Exception as error:  # noqa: BLE001 the script lives on; the parent must know
                answer = Answer(f"{type(error).__name__}: {error}".splitlines()[0])

    # Twins

    def _twin(self, question: Question) -> Answers:
        if self._plan.level == CALL:
            return (yield from self._twin_of_calls(question))
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
            self._seed(question.seed)
            if way.outside:
                self._outside.begin(living)
            first = self._watching.begin()
            yield
            if self._doubling.epoch_begun or self._outside.too_much:
                continue
            off = Snapshot(living, to_host)
            start.put_back()
            starts = self._move(living, question)
            self._switches.turn(question.on)
            self._seed(question.seed_on)
            self._outside.again(living)
            second = self._watching.begin()
            peak = _Peak()
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

    def _move(self, living: Living, question: Question) -> dict[str, torch.Tensor]:
        """Move the weights by a hair, if the question is what that does; where they are then."""
        starts: dict[str, torch.Tensor] = {}
        if question.moved:
            for number, (name, each) in enumerate(living.parameters.items()):
                if each.is_floating_point():
                    moved = distances.moved_by(
                        each.detach(), question.moved, question.units, MOVES + number
                    )
                    each.data.copy_(moved)
                    starts[name] = each.detach().clone()
        return starts

    def _twin_of_calls(self, question: Question) -> Answers:
        """Each call of a model in one step happens twice."""
        self._switches.turn(question.off)
        found: dict[str, float] = {}
        wrong: list[str] = []
        peaks: list[int] = []
        living = Living()

        def twice(call: Callable[..., Any], _: Any, *given: Any, **named: Any) -> Any:
            kept = copied(given), copied(named)
            generators = Generators()
            self._seed(question.seed)
            null = call(*given, **named)  # which may end the step before, and with it the twin
            if self._watching.around_call is not twice:
                return null
            after, before = Generators(), Snapshot(living, not fits_on_gpu(living))
            held = [each.detach().clone() for each in tensors_in(null)]
            generators.put_back()
            self._move(living, question)
            self._switches.turn(question.on)
            self._seed(question.seed_on)
            peak = _Peak()
            self._inside = True
            try:
                ours = call(*kept[0], **kept[1])
            finally:
                self._inside = False
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

    # Time

    def _block(self, question: Question) -> Answers:
        self._switches.turn(question.on)
        self._doubling.settles = question.without_waits
        for _ in range(question.lead):
            yield
        for last in range(TRIES):
            compiled, peak = _compiled(), _Peak()
            self._doubling.epoch_begun, self._doubling.waited_s = False, 0.0
            empty_queue()
            begun, begins = perf_counter(), False
            for _ in range(question.steps):
                yield
                begins = begins or self._doubling.epoch_begun
                if begins and last < TRIES - 1:  # in the last try, epochs are what steps are like
                    break
            empty_queue()
            took_s, waited_s = perf_counter() - begun, self._doubling.waited_s
            if not begins:
                break
        self._doubling.settles = False
        counted_s = took_s - waited_s if question.without_waits else took_s
        return Answer(
            ms=counted_s * 1000 / question.steps,
            waited_ms=waited_s * 1000 / question.steps,
            outcomes=self._switches.outcomes(),
            peak_bytes=peak.bytes(),
            compiled=_compiled() - compiled,
        )

    @staticmethod
    def _seed(seed: int | None) -> None:
        if seed is not None:
            seed_all(seed)


class _Peak:
    """The most memory that is in use on the GPU from now on."""

    def __init__(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()

    def bytes(self) -> int | None:
        """So much."""
        return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None


def _compiled() -> int:
    """Functions that torch has compiled so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


def begin(argument: str) -> Bench:
    """Do to this process what the plan says; torch is there, the script's own lines are not yet."""
    plan = read_bench_plan(argument)
    set_seeds(plan.seed)
    bench = Bench(plan)
    parent = os.getpid()
    atexit.register(lambda: bench.close() if os.getpid() == parent else None)
    return bench
