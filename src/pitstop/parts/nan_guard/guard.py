"""NaN guard: a step whose gradients are not finite is left out, or ends the run, or rewinds it.

Why the usual guard is slow: ``if torch.isnan(loss): continue`` makes Python wait for the GPU in
every step, and looks at a loss whose backward pass may still overflow. Clamping the loss hides
where its gradient was lost. ``detect_anomaly`` costs more than the step itself.

Here one kernel looks at all gradients right before the optimizer steps, and a fused optimizer reads
its answer on the device. The host reads it some steps later, when it is there. Other optimizers
need the answer before they step: on a CPU it is there at once, on a GPU the step waits for it.

The floor: the gradients are read and written once, at the memory's bandwidth.

What it does not do: it does not see a loss that is bad while its gradients are finite, unless it is
given the loss. LBFGS computes gradients inside its step, again and again, and is refused. With a
GradScaler, which leaves steps out by itself, it only counts. What comes before an optimizer's step
has happened: a counter or a schedule of the script goes on. Where the answer comes late, running
statistics go back to those before the bad step. The twin is the loop without it.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from pitstop import internals
from pitstop.core.errors import PitstopError
from pitstop.parts.nan_guard import finite, withheld
from pitstop.parts.nan_guard.answers import Answers
from pitstop.parts.nan_guard.closures import with_closure
from pitstop.parts.nan_guard.snapshot import Snapshot, statistics

Policy = Literal["stop", "skip", "rewind"]

LIMIT = 10  # bad steps in a row that are left out: after those the training does not recover
EVERY = 100  # steps between two snapshots: copying all weights costs about as much as a step
NAMED = 3  # parameters that a message names


class NotFiniteError(ArithmeticError):
    """The guard has ended the training; the weights are those from before the bad step."""


@dataclass(frozen=True, slots=True)
class GuardEvent:
    """One step that the guard did not let happen."""

    step: int  # of its optimizer, counted from 1
    optimizer: str
    action: Policy
    back_to: int | None = None  # after a rewind: the step whose weights are there again
    parameters: tuple[str, ...] = ()  # whose gradients were bad, where the host knew in time

    def __str__(self) -> str:
        named = ", ".join(self.parameters[:NAMED])
        more = f" and {len(self.parameters) - NAMED} more" if len(self.parameters) > NAMED else ""
        of = f" (of {named}{more})" if named else ""
        did = {
            "stop": "stopped before it",
            "skip": "left out",
            "rewind": f"went back to step {self.back_to}",
        }
        return f"step {self.step}: gradients{of} are not finite: {did[self.action]}"


def to_stderr(words: str) -> None:
    """One line of ours."""
    sys.stderr.write(f"pitstop: {words}\n")


class NanGuard:
    """The guard of some optimizers; ``remove`` takes it off."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        policy: Policy,
        limit: int,
        every: int,
        say: Callable[[str], None],
    ) -> None:
        self.events: list[GuardEvent] = []
        self._policy = policy
        self._limit = limit
        self._every = every
        self._say = say
        self._modules = modules
        self._names = {each: name for module in modules for name, each in module.named_parameters()}
        self._steps: dict[torch.optim.Optimizer, _Steps] = {}
        self._losses: list[torch.Tensor] = []
        self._bad = 0  # in a row; of rewinds, in all
        self._snapshot: Snapshot | None = None
        self._repetition: _Repetition | None = None
        # ``pitstop run`` has a bad step repeated before it is acted upon, to find out why: how many
        # steps from now its batch comes again, by the step and how late it is known; 0 for never.
        self.repeats: Callable[[int, int], int] = lambda _step, _late: 0
        self.repeated: Callable[[], None] = lambda: None
        self._handles: list[Any] = []

    def add(self, optimizer: torch.optim.Optimizer) -> None:
        """Guard one more optimizer, from its next step on."""
        self.know(optimizer)
        self._handles += [
            optimizer.register_step_pre_hook(self.about_to_step),
            optimizer.register_step_post_hook(self.after),
        ]

    def know(self, optimizer: torch.optim.Optimizer) -> None:
        """Likewise, for somebody who calls ``before`` and ``after`` at its steps himself."""
        if isinstance(optimizer, torch.optim.LBFGS):
            raise PitstopError("LBFGS computes gradients inside its step: it cannot be guarded")
        self._steps[optimizer] = _Steps(statistics(self._modules))
        if self._policy == "rewind":
            self._snapshot = Snapshot(self._modules, tuple(self._steps))
            self._snapshot.take(0)

    def loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Look at this loss as well, together with the gradients of the next step."""
        self._losses.append(loss.detach())
        return loss

    def remove(self) -> None:
        """Take the guard off."""
        while self._handles:
            self._handles.pop().remove()

    def about_to_step(self, optimizer: Any, arguments: Any, options: Any) -> Any:
        """The optimizer is called; its gradients are there, or come from a closure."""
        given = with_closure(arguments, options, lambda: self.before(optimizer))
        if given is None:
            self.before(optimizer)
        return given

    def before(self, optimizer: Any) -> None:
        """The optimizer is about to step: judge its gradients."""
        mine = self._steps[optimizer]
        mine.count += 1
        if self._repetition and self._repetition.is_at(mine):
            mine.hidden = withheld.hide(optimizer)
            self._losses.clear()
            mine.statistics.restore(mine.count)
            return
        astray = self._read(optimizer, mine)
        flag = finite.is_bad([*finite.gradients(optimizer), *self._losses])
        self._losses.clear()
        if withheld.is_scalers(optimizer) or flag is None:
            return
        flag = finite.agreed(flag)
        if astray:  # these gradients are those of weights that are gone
            mine.hidden = withheld.hide(optimizer)
        elif withheld.by_device(optimizer, flag):
            mine.answers.ask(mine.count, flag)
            mine.told = True
        elif flag:
            named = self._named(optimizer)
            self._judge(optimizer, mine, mine.count, named)
            mine.hidden = withheld.hide(optimizer)
            return
        else:
            self._is_fine(mine, mine.count)
        mine.statistics.keep(mine.count)

    def after(self, optimizer: Any, *_: Any) -> None:
        """It has stepped, or believes that it has."""
        mine = self._steps[optimizer]
        withheld.show(mine.hidden)
        mine.hidden = []
        if mine.told:
            withheld.forget(optimizer)
            mine.told = False
        if self._repetition and self._repetition.is_at(mine):
            self._act_on_repeated(optimizer)
        elif self._snapshot and not self._repetition and optimizer is next(iter(self._steps)):
            self._keep_weights(self._snapshot, mine.count)

    def _keep_weights(self, snapshot: Snapshot, count: int) -> None:
        """Once in so many steps, and only where all answers are there and good.

        In the beginning after 1, 2, 4, 8 ... steps: much is learned then.
        """
        early = count < self._every and count.bit_count() == 1
        if count % self._every and not early:
            return
        rewound = [self._read(each, its, wait=True) for each, its in self._steps.items()]
        if not any(rewound):
            snapshot.take(count)

    def _read(self, optimizer: Any, mine: "_Steps", wait: bool = False) -> bool:
        """Judge the steps whose answers have come; whether the weights are others since."""
        rewound = False
        for number, bad in mine.answers.known(wait):
            if bad:
                rewound = self._judge(optimizer, mine, number, ()) or rewound
            else:
                self._is_fine(mine, number)
        return rewound

    def _judge(
        self, optimizer: Any, mine: "_Steps", number: int, parameters: tuple[str, ...]
    ) -> bool:
        """A step was bad: act at once, or when it has been repeated. Whether weights went back."""
        mine.statistics.restore(number)
        if self._repetition:
            return False
        if steps := self.repeats(number, mine.count - number):
            self._repetition = _Repetition(mine, mine.count + steps, number, parameters)
        if not steps or self._policy == "skip":
            self._act(optimizer, number, parameters)
        return not steps and self._policy == "rewind"

    def _act_on_repeated(self, optimizer: Any) -> None:
        repetition, self._repetition = self._repetition, None
        self.repeated()
        if repetition and self._policy != "skip":
            self._act(optimizer, repetition.number, repetition.parameters)

    def _act(self, optimizer: Any, number: int, parameters: tuple[str, ...]) -> None:
        back_to = None
        if self._snapshot:
            self._snapshot.restore()
            back_to = self._snapshot.step
        event = GuardEvent(number, type(optimizer).__name__, self._policy, back_to, parameters)
        self.events.append(event)
        self._bad += 1
        if self._policy == "stop":
            raise NotFiniteError(str(event))
        self._say(str(event))
        if self._bad >= self._limit:
            steps = "rewinds" if self._policy == "rewind" else "bad steps in a row"
            cure = "lower the learning rate, or look at the data"
            raise NotFiniteError(f"step {number}: {self._bad} {steps}: {cure}")

    def _is_fine(self, mine: "_Steps", number: int) -> None:
        mine.statistics.settled(number)
        if self._policy != "rewind":
            self._bad = 0

    def _named(self, optimizer: Any) -> tuple[str, ...]:
        """The parameters whose gradients are bad; the host waits for the device anyway."""
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        bad = (each for each in parameters if each.grad is not None and finite.is_bad([each.grad]))
        return tuple(self._names[each] for each in bad if each in self._names)


class _Steps:
    """What is known of the steps of one optimizer."""

    def __init__(self, buffers: list[torch.Tensor]) -> None:
        self.count = 0
        self.answers = Answers()
        self.statistics = _Statistics(buffers)
        self.hidden: withheld.Gradients = []
        self.told = False  # the optimizer has our flag


@dataclass(frozen=True, slots=True)
class _Repetition:
    """A bad step whose batch comes again."""

    steps: _Steps  # of its optimizer
    at: int  # the count of the repeated step
    number: int  # of the bad one
    parameters: tuple[str, ...]

    def is_at(self, steps: _Steps) -> bool:
        """Whether the step that these steps are at is the repeated one."""
        return steps is self.steps and steps.count == self.at


class _Statistics:
    """Running means and the like after each step that may still turn out to be bad."""

    def __init__(self, buffers: list[torch.Tensor]) -> None:
        self._buffers = buffers
        self._kept: deque[tuple[int, list[torch.Tensor]]] = deque()
        self._free: list[list[torch.Tensor]] = []
        self.keep(0)

    @torch.no_grad()
    def keep(self, number: int) -> None:
        """Copy them as they are in this step."""
        if self._buffers:
            room = (
                self._free.pop()
                if self._free
                else [torch.empty_like(each) for each in self._buffers]
            )
            internals.foreach_copy(room, self._buffers)
            self._kept.append((number, room))

    def settled(self, number: int) -> None:
        """A step was fine: what is older is of no use."""
        while len(self._kept) > 1 and self._kept[1][0] <= number:
            self._free.append(self._kept.popleft()[1])

    @torch.no_grad()
    def restore(self, number: int) -> None:
        """Put back what was there before this step, and forget what came since."""
        while len(self._kept) > 1 and self._kept[-1][0] >= number:
            self._free.append(self._kept.pop()[1])
        if self._kept:
            internals.foreach_copy(self._buffers, self._kept[-1][1])


def nan_guard(
    modules: nn.Module | Iterable[nn.Module],
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    policy: Policy = "skip",
    *,
    limit: int = LIMIT,
    every: int = EVERY,
    say: Callable[[str], None] = to_stderr,
) -> NanGuard:
    """Let no step be taken with gradients that are not finite.

    ``stop`` raises ``NotFiniteError`` before the step. ``skip`` leaves the step out, running
    statistics included. ``rewind`` also puts back weights, statistics and optimizer state as they
    were at most ``every`` steps ago; batches and random numbers go on, so that the accident does
    not repeat. After ``limit`` bad steps in a row, or rewinds in all, it stops. ``guard.events``
    has what happened, ``say`` gets each event as a line.
    """
    if policy not in {"stop", "skip", "rewind"}:
        raise PitstopError(f"policy is {policy!r}: pass 'stop', 'skip' or 'rewind'")
    models = (modules,) if isinstance(modules, nn.Module) else tuple(modules)
    guard = NanGuard(models, policy, limit, every, say)
    for each in (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else optimizers:
        guard.add(each)
    return guard
