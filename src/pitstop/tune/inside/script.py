"""Script: what a change may ask of the script that runs, in the script's own process.

Each change gets a ``Script`` of its own. All that it asks for does nothing while the change is
switched off, be it that the change has declined or that it is being timed. At the end everything
is undone, the last thing first.
"""

import atexit
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint  # which some versions leave to whoever needs it
from torch import is_grad_enabled, nn
from torch.autograd.function import FunctionMeta
from torch.optim import Optimizer

from pitstop.parts.blocks import wrap
from pitstop.profile.hooks.patch import patch
from pitstop.tune.change import find_change
from pitstop.tune.inside import batches, failures, first_steps, learning
from pitstop.tune.inside.activity import Activity
from pitstop.tune.inside.device import empty_queue, is_alone
from pitstop.tune.inside.kernels import launches_kernels
from pitstop.tune.inside.made import Arguments, Made
from pitstop.tune.inside.models import Models, device_of
from pitstop.tune.inside.numbers import Perturbation, keep_outputs, set_seeds
from pitstop.tune.plan import CHANGES, Options, Outcome, Plan, Wanted, read_plan, write

Around = Callable[..., Any]
Action = Callable[[], None]


class Script:
    """The running script, as one change sees it."""

    def __init__(
        self, wanted: Wanted, plan: Plan, made: Made, models: Models, undos: list[Action]
    ) -> None:
        self.name = wanted.name
        self.options: Options = wanted.options
        self.torch: Any = torch  # so that the file of a change can be read without torch
        self.seeded = plan.seed is not None  # numbers will be compared with those of another run
        self.toggled = False  # the change will be switched off and on
        self.on = True
        self._made = made
        self._models = models
        models.changes.append(self)
        self._times = 0
        self._needs = ""
        self._declined = ""
        self._effect = ""
        self._lost: list[str] = []
        self.spares_calls = False  # models are called less often, and that is meant so
        self.left: set[int] = set()  # modules, by id, whose buffers no longer move
        self._ends: list[Action] = []
        self._switches: list[tuple[Action, Action]] = []
        self._undos = undos
        self.earnest = plan.earnest  # nothing is tried: it is the run that was asked for
        self._failed = False
        self.report: Action = lambda: None
        self.rehearses: Callable[[], bool] = lambda: False  # a check before the training

    # What became of the change

    def applied(self, times: int = 1) -> None:
        """The change has taken hold."""
        first, self._times = not self._times, self._times + times
        if first:
            self.report()

    def decline(self, reason: str) -> None:
        """The change does not apply to this script: undo it, and let the script run as it is."""
        if not self._declined:
            self._declined = reason
            self.turn(False)
            self.report()

    def attempt(self, action: Action) -> None:
        """Apply a part of the change, which may fail."""
        try:
            action()
        except Exception as error:  # noqa: BLE001 whatever it is
            self._fail(error)

    @property
    def has_declined(self) -> bool:
        """Whether it is known not to apply, whatever comes."""
        return bool(self._declined)

    def needs(self, what: str) -> None:
        """Without this the change never takes hold: the reason, should it come to that."""
        self._needs = what

    def draws_otherwise(self) -> None:
        """With this script the change makes random numbers fall elsewhere."""
        self._effect = "other-randomness"

    def loses(self, what: str) -> None:
        """What the script would lose by it beside its numbers; in words, each of them once."""
        if what not in self._lost:
            self._lost.append(what)

    def leaves(self, modules: Iterable[nn.Module]) -> None:
        """The buffers of these modules stay as they are, which was said."""
        self.left |= {id(each) for each in modules}

    @property
    def siblings(self) -> list[Options]:
        """The options of all changes of this name in the process, its own among them."""
        return [each.options for each in self._models.changes if each.name == self.name]

    def outcome(self) -> Outcome:
        """What became of it so far."""
        missing = "" if self._times else f"no {self._needs}" if self._needs else "nothing to change"
        reason = self._declined or missing
        kind = self._effect, self._failed, tuple(self._lost)
        return Outcome(self.name, self.options, self._times, reason, *kind)

    def together(self) -> tuple[bool, ...]:
        """Which of all changes are on now, for what would freeze them."""
        return tuple([each.on for each in self._models.changes])

    # Events

    def patch(self, owner: Any, name: str, around: Around, while_off: bool = False) -> None:
        """Call ``around(original, ...)`` in place of a function of torch's."""
        around = self._shielded(around)

        def build(original: Callable[..., Any]) -> Callable[..., Any]:
            def replacement(*arguments: Any, **options: Any) -> Any:
                if not (self.on or while_off) or torch.compiler.is_compiling():
                    return original(*arguments, **options)
                return around(original, *arguments, **options)

            return replacement

        self._undos.append(patch((owner,), name, build))

    def on_loader(self, callback: Callable[[Arguments, Any], None]) -> None:
        """Edit the named arguments of each DataLoader before it is built."""
        self._made.on_loader(self._checked(callback))

    def on_optimizer_built(self, callback: Callable[[Optimizer], None]) -> None:
        """Call back for each optimizer that knows its parameters."""
        self._made.on_built(self._checked(callback))

    def on_kernel(self, callback: Callable[[Any], None]) -> None:
        """Call back for each autograd function that launches kernels of its own, once defined."""

        def define(original: Callable[..., None], function: Any, *given: Any) -> None:
            original(function, *given)
            if launches_kernels(function):
                self._checked(callback)(function)

        self.patch(FunctionMeta, "__init__", define, while_off=True)

    def on_model(self, callback: Callable[[nn.Module], None]) -> None:
        """Call back once for each outermost module with weights, before its first call."""
        self._models.on_model(self._checked(callback))

    def on_cuda_model(self, callback: Callable[[nn.Module], None]) -> None:
        """Likewise, for models on a GPU; without one the change does not apply."""
        self.needs("model on a GPU")

        def if_on_gpu(module: nn.Module) -> None:
            if device_of(module) == "cuda":
                callback(module)

        self.on_model(if_on_gpu)

    def on_cuda(self, callback: Action) -> None:
        """Call back once, at the first model on a GPU: for a switch that all models share."""
        met = 0

        def if_first(_: nn.Module) -> None:
            nonlocal met
            met += 1
            if met == 1:
                callback()

        self.on_cuda_model(if_first)

    def around_model(self, around: Around) -> None:
        """Call ``around(call, module, ...)`` in place of each call of an outermost module."""
        self._models.around(self._if_on(around))

    def wrap(self, module: nn.Module, around: Around, while_off: bool = False) -> None:
        """Call ``around(call, module, ...)`` in place of each call of one module."""
        shielded = self._shielded(around, about=1) if while_off else self._if_on(around)
        self._undos.append(wrap(module, shielded))

    def on_step_ended(self, callback: Action) -> None:
        """Call back at the end of each step, on or off."""
        self._ends.append(self._checked(callback))

    def step_ended(self) -> None:
        """A step has ended."""
        for callback in self._ends:
            callback()

    def switch(self, on: Action, off: Action) -> None:
        """Switch something on, now, and off at the end; and in between if that is to be timed.

        Off is what the script would have without the change, whatever that is.
        """
        self._switches.append((on, off))
        if self.on:
            self._checked(on)()

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers that are alive."""
        return list(self._made.optimizers)

    # The other side

    def turn(self, on: bool) -> None:
        """Switch the change on or off as a whole; one that has declined stays off."""
        if on == self.on or (on and self._declined):
            return
        self.on = on
        for switch_on, switch_off in self._switches if on else reversed(self._switches):
            self.attempt(switch_on if on else switch_off)

    def _fail(self, error: Exception) -> None:
        if not self.earnest:
            failures.end_trial(self.name, error)
        if self._failed:  # once more, while it is taken off
            return
        self._failed = True
        said = failures.in_one_line(error)
        failures.say(f"{self.name} failed and is taken off, the run goes on without it: {said}")
        self.attempt(partial(self.decline, said))

    def _shielded(self, around: Around, about: int = 0) -> Around:
        return failures.shielded(around, self._fail, about) if self.earnest else around

    def _if_on(self, around: Around) -> Around:
        around = self._shielded(around, about=1)  # the module

        def either(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            if self.on:
                return around(call, *arguments, **options)
            return call(*arguments[1:], **options)

        return either

    def _checked(self, callback: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            if not self._declined:
                self.attempt(partial(callback, *arguments))

        return call


class Run:
    """All that is done to one run of the script."""

    def __init__(self, plan: Plan) -> None:
        self._folder = Path(plan.folder)
        self._last = plan.steps
        self._done = 0  # steps
        self._undos: list[Action] = []  # of all together: what was put on top must go first
        made, models = Made(self._undos), Models(self._undos)
        made.watch_optimizers()
        self._scripts = [Script(each, plan, made, models, self._undos) for each in plan.changes]
        self._counts = plan.outputs  # whether the numbers of the next step do
        self._activity: Activity | None = None
        if plan.outputs:  # first of all, and so around what changes put around the models
            counts = self._numbers_count
            self._activity = Activity(self._folder, counts, self._undos)
            keep_outputs(models, self._folder, counts, self._activity.called)
            self._undos.append(batches.record(self._folder, lambda: self._counts))
        for script in self._scripts:
            script.report = self._report
            script.rehearses = lambda: plan.trains and not self._done and not is_grad_enabled()
            script.attempt(partial(find_change(script.name).apply, script))
        if plan.perturb:
            moved = Perturbation(plan.perturb, plan.signs, plan.units)
            models.on_model(moved.of_module)
            made.on_built(moved.of_optimizer)
        if plan.outputs:  # after what moves weights: that is no learning
            learning.record(made, self._folder, lambda: self._done if self._counts else None)
        if plan.closely:
            first_steps.record(made, models, self._folder, lambda: self._done)

    def step_ended(self, done: int) -> bool:
        """The recorder counts the steps; their ends are where a change may be switched.

        Whether the run has told enough.
        """
        self._done = done
        enough = self._in_vain()
        if enough or (self._last and done >= self._last):
            empty_queue()  # losses and times of steps that the GPU has not done are unknown
        return enough

    def close(self) -> None:
        """Write what became of the changes, and undo them."""
        self._report()
        if self._activity:
            self._activity.write()
        for script in reversed(self._scripts):
            script.turn(False)
        while self._undos:
            self._undos.pop()()

    def _numbers_count(self) -> bool:
        """Those of this step; behind the last one a script may do what another run does not."""
        return self._counts and not (self._last and self._done >= self._last)

    def _in_vain(self) -> bool:
        """Whether a trial will tell nothing: what it is about has not taken hold, and should have.

        One that declines does so at once, others are given all steps whose numbers count.
        """
        if self._last is None or not is_alone():
            return False
        return any(each.has_declined for each in self._scripts[-1:])

    def _report(self) -> None:
        write(self._folder, CHANGES, [script.outcome() for script in self._scripts])


def begin(argument: str) -> Run:
    """Do to this process what the plan says; torch is there, the script's own lines are not yet."""
    plan = read_plan(argument)
    if plan.seed is not None:
        set_seeds(plan.seed)
    run = Run(plan)
    parent = os.getpid()
    atexit.register(lambda: run.close() if os.getpid() == parent else None)
    return run
