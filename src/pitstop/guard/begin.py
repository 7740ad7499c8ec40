"""Begin: guard every optimizer of the script's process, as soon as it takes its first step."""

import gc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pitstop.core.errors import PitstopError
from pitstop.core.printable import printable
from pitstop.guard.batches import Batches, bad_numbers, random_state, samples_of, set_random
from pitstop.guard.plan import SEEN, GuardPlan, read_guard_plan
from pitstop.guard.replay import Replay
from pitstop.guard.story import story
from pitstop.parts.nan_guard.closures import with_closure
from pitstop.parts.nan_guard.guard import EVERY, LIMIT, NanGuard, NotFiniteError
from pitstop.profile.hooks.attempt import attempt, complain
from pitstop.profile.hooks.patch import Function, Given, Undo, patch, root_of, with_callbacks

MOST_REPEATED = 3  # bad steps that are looked into; what comes later has the same cause


class Guard:
    """The guard of one process."""

    def __init__(self, plan: GuardPlan) -> None:
        self._plan = plan
        self._undos: list[Undo] = []
        self._batches = Batches(self._undos)
        self._batches.repeating = lambda: attempt(self._replay_begins)
        self._met: list[Any] = []  # optimizers that have stepped
        self._optimizers: list[Any] = []  # those of them that are guarded
        self._guard: NanGuard | None = None
        self._replay: Replay | None = None
        self._step = 0  # the bad one
        self._bad = 0  # so many of them
        self._waiting: Any = None  # the random numbers to go on with after the repeated step
        self._scaled = False  # the next loss is a GradScaler's: it may overflow
        self._undos += [
            register_optimizer_step_pre_hook(self._about_to_step).remove,
            register_optimizer_step_post_hook(self._stepped).remove,
            patch((torch.autograd,), "backward", self._backward),
            patch((torch.amp.grad_scaler.GradScaler,), "scale", self._scale),
        ]

    def _about_to_step(self, optimizer: Any, arguments: Any, options: Any) -> Any:
        given = attempt(with_closure, arguments, options, lambda: self._judge(optimizer))
        if given is None:
            self._judge(optimizer)
        return given

    def _judge(self, optimizer: Any) -> None:
        """Its gradients are there."""
        try:
            if self._knows(optimizer) and self._guard:
                self._guard.before(optimizer)
        except NotFiniteError:
            raise
        except Exception as error:  # noqa: BLE001 never the end of the user's run
            self._give_up(error)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        try:
            if self._guard and self._knows(optimizer):
                self._guard.after(optimizer)
            self._batches.step_ended()
        except NotFiniteError:
            raise
        except Exception as error:  # noqa: BLE001 likewise
            self._give_up(error)

    def _knows(self, optimizer: Any) -> bool:
        """Whether this optimizer is guarded, from its first step on."""
        if not any(each is optimizer for each in self._met):
            self._met.append(optimizer)
            guard = self._guard = self._guard or self._made()
            try:
                guard.know(optimizer)
            except PitstopError as error:
                complain(f"not guarded: {error}")
            else:
                self._optimizers.append(optimizer)
                (Path(self._plan.folder) / f"{SEEN}-{os.getpid()}").touch()
        return any(each is optimizer for each in self._optimizers)

    def _made(self) -> NanGuard:
        guard = NanGuard(_models(), self._plan.policy, LIMIT, EVERY, complain)
        guard.repeats, guard.repeated = self._repeats, self._repeated
        return guard

    def _give_up(self, error: Exception) -> None:
        """A fault of ours: take everything off, and let the script run."""
        complain(f"no longer guarded: {type(error).__name__}: {error}")
        self.close()

    def close(self) -> None:
        """Take everything off."""
        while self._undos:
            attempt(self._undos.pop())

    def _backward(self, original: Function) -> Function:
        def begins(given: Given) -> None:
            root = root_of(given)
            if self._replay:
                self._replay.backward_begins(root)
            scaled, self._scaled = self._scaled, False
            if self._guard and root is not None and root.numel() == 1 and not scaled:
                self._guard.loss(root)

        return with_callbacks(original, begins)

    def _scale(self, original: Function) -> Function:
        def begins(given: Given) -> None:
            self._scaled = given[0][0].is_enabled()

        return with_callbacks(original, begins)

    # A bad step

    def _repeats(self, step: int, late: int) -> int:
        """A step was bad, so many steps ago; after how many the same batch comes again."""
        self._step, self._bad = step, self._bad + 1
        if self._bad > MOST_REPEATED:
            return 0
        return int(attempt(self._batches.repeat, late, otherwise=0))

    def _replay_begins(self) -> None:
        self._waiting = self._waiting or random_state()
        self._replay = Replay(self._step, self._optimizers)

    def _repeated(self) -> None:
        """The repeated step is at its end, and will not be taken."""
        replay, self._replay = self._replay, None
        if replay is None:
            return
        found = attempt(replay.end)
        batches = self._batches.of_repeated
        samples = list(samples_of(batches))
        dataset = batches[0].dataset if batches else ""
        why = story(found, samples, dataset, bad_numbers(batches))
        complain(printable(f"step {self._step}, repeated: {why}"))
        if self._waiting is not None:
            set_random(self._waiting)
            self._waiting = None


def begin(argument: str) -> None:
    """Guard this process; torch is there, the script's own lines are not yet."""
    Guard(read_guard_plan(argument))


def _models() -> tuple[nn.Module, ...]:
    """The outermost modules that are alive."""
    modules = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    inner = {id(child) for each in modules for child in _children(each)}
    return tuple(each for each in modules if id(each) not in inner)


def _children(module: nn.Module) -> Iterable[Any]:
    return (vars(module).get("_modules") or {}).values()
