"""Child: one process of the unedited script, in which everything that can be switched is tried.

It begins like any trial. After a warm-up it asks its parent at the end of each step what to do, and
waits for the answer: a twin, which is a step that happens twice from one state and with one batch,
or a block of steps that is timed. What the script learns meanwhile is thrown away.
"""

import atexit
import os
import sys
from collections.abc import Generator
from functools import partial
from time import perf_counter

from torch import is_grad_enabled

from pitstop.tune.bench.doubling import Doubling
from pitstop.tune.bench.outside import Outside
from pitstop.tune.bench.passes import Peak
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
from pitstop.tune.bench.switches import Switches
from pitstop.tune.bench.twin_calls import TwinCalls
from pitstop.tune.bench.twin_steps import TwinSteps
from pitstop.tune.bench.watching import Watching
from pitstop.tune.inside.device import empty_queue
from pitstop.tune.inside.made import Made
from pitstop.tune.inside.models import Models
from pitstop.tune.inside.numbers import set_seeds
from pitstop.tune.inside.script import Action, Script
from pitstop.tune.plan import Plan

KNOWN_AFTER = 10_000  # calls without a new model: data may be prepared by others for long
TRIES = 4  # to time a block that no epoch begins in

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
        self._twin_calls = TwinCalls(self._switches, self._watching)
        self._twin_steps = TwinSteps(self._switches, self._watching, self._doubling, self._outside)
        self._course = self._run()
        self._inside = False

    def step_ended(self, done: int) -> bool:
        """Go on with whatever waits for the end of a step; whether all is told."""
        within = self._inside or self._twin_calls.calling
        if within or done <= self._steps_done:  # or it was no step after all
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

    def _twin(self, question: Question) -> Answers:
        twins = self._twin_calls if self._plan.level == CALL else self._twin_steps
        return (yield from twins.answer(question))

    def _block(self, question: Question) -> Answers:
        self._switches.turn(question.on)
        self._doubling.settles = question.without_waits
        for _ in range(question.lead):
            yield
        for last in range(TRIES):
            compiled, peak = _compiled(), Peak()
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
