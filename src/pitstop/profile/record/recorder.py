"""Recorder: turns what the hooks see into slices of time, and writes them down as the run goes.

The run is one line of time (``clock``), cut at every fetched batch, optimizer step and outermost
model call. Each slice says how long it took and how that splits into phases. Which slices make a
step is decided when all is known (``collect``); here steps are only counted (``steps``), to know
when to inspect and when to stop.

All this happens in every step of every run, so it is written to be cheap: nothing is formatted
before it is written, and what happens in short steps is heard of a little later (``notes``).
"""

import sys
from collections import deque
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from threading import get_ident
from typing import Any

from torch.compiler import is_compiling
from torch.optim.optimizer import Optimizer

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt, complain
from pitstop.profile.hooks.exchange import Exchange
from pitstop.profile.hooks.patch import Given, root_of
from pitstop.profile.read.clock import BACKWARD, OPTIMIZER, PHASES, WAIT, Clock
from pitstop.profile.record import headspace
from pitstop.profile.record.compiling import compiled
from pitstop.profile.record.cores import Cores
from pitstop.profile.record.loaders import Loaders
from pitstop.profile.record.meters import Meter
from pitstop.profile.record.notes import MOST_STEPS, Notes
from pitstop.profile.record.numbered import Numbers
from pitstop.profile.record.optimizers import Optimizers
from pitstop.profile.record.writer import Writer
from pitstop.profile.start.options import ENOUGH, Options
from pitstop.profile.start.pace import Pace
from pitstop.profile.steps.live import Steps
from pitstop.profile.steps.scope import Scope

LOSSES = 15  # their column in a slice
MOST_LOSSES = 16  # of a slice
NO_THREAD = -1


class StopAfterSteps(SystemExit):
    """Ends the script after ``--steps``: finalisers run, and the exit code is 0."""


class Recorder:
    """The state of one recorded process. Only the thread that imported torch is listened to."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.alive = True
        self.undo: Callable[[], None] = lambda: None
        self.on_step_end: Callable[[int], bool] = lambda _: False  # of so many; true: it may end
        self.on_other_steps: Callable[[], None] = lambda: None  # steps are not model calls
        self.notes = Notes(self)
        self.may_note = True  # nobody must hear of a step as soon as it ends
        self.thread = get_ident()  # the one that is recorded, while we are alive
        self._writer = Writer(options.folder, options.redact)
        self._meter = Meter()
        self.clock = Clock()
        self.steps = Steps(*options.step_ends)
        self._exchange = Exchange()
        self._cores = Cores()
        self._scope = Scope(options, lambda: self.clock.phase)
        self._pace = Pace(options.folder)
        self.numbers = Numbers(self._writer)
        self.loaders = Loaders(self.numbers.next, self._writer)
        self.optimizers = Optimizers()
        self.other_steps = False  # whether steps are batches or optimizer steps
        self.in_function = False  # a compiled one, called by the script itself
        self._limit = options.steps or sys.maxsize
        self._told = False  # that enough was seen
        self._anew = False  # whether to look at later steps than was planned
        self._looked_at = 0  # 1 where the current step is, and so is no baseline
        self._loader = -1
        self._working = ""  # what the current slice works on: a batch, a model call, or nothing
        self._last: dict[str, int] = {}  # the module of the current call
        self._stepping: dict[int, bool] = {}  # optimizers by id, and whether their step counts
        self._awaits_step = False  # a gradient scaler was asked for one, which has not begun
        self._losses: deque[Any] = deque(maxlen=MOST_LOSSES)  # roots of backward in this slice
        self._gradient_norm: Any = None
        self._scale: Any = None
        self._unscaled: tuple[int, Any] = (0, None)

    def enter(self, phase: int) -> bool:
        """Begin a phase; false where it does not count: nested in another, or another thread."""
        return self.listens() and self.clock.enter(phase)

    def leave(self) -> None:
        """End the phase that ``enter`` began."""
        self.clock.leave()

    def loader_built(self, loader: Any, dataset: Any) -> None:
        """A DataLoader is being built."""
        if self.listens():
            self.loaders.built(loader, dataset)

    def loader_not_built(self, loader: Any, dataset: Any) -> None:
        """The building of a DataLoader has failed."""
        if self.listens():
            self.loaders.not_built(loader, dataset)

    def begin_epoch(self, loader: Any) -> bool:
        """The script begins to iterate over a loader, which may have to start its workers."""
        if not self.listens() or self.clock.open:
            return False
        return self._begin_wait(self.loaders.number_of_loader(loader))

    def epoch_begun(self, loader: Any, iterator: Any) -> None:
        """The loader is ready to be asked for batches."""
        self.loaders.started(loader, iterator, self.end_wait())

    def begin_wait(self, given: Given) -> bool:
        """The script asks for a batch; false where it is not the script that asks.

        The first request also tells the loader's settings, so a run that waits forever has them.
        """
        if get_ident() != self.thread or self.clock.open:
            return False
        return self._begin_wait(self.loaders.number(given[0][0]))

    def _begin_wait(self, number: int) -> bool:
        if number != self._loader or not self.steps.cut_themselves:
            self.begin("loader")  # else the optimizer cuts, and once a step is enough
        if not self.other_steps:
            self._end_model_steps()
        self._loader = number
        if self._meter.on_gpu:
            self._meter.wait_begins()
        return self.clock.enter(WAIT)

    def _end_model_steps(self) -> None:
        self.other_steps = True
        self.on_other_steps()

    def end_wait(self) -> int:
        """The waiting is over, with a batch or without; return its microseconds."""
        if self._meter.on_gpu:
            self._meter.wait_ends()
        return self.clock.leave()

    def end_epoch(self, _: Given) -> None:
        """There is no further batch: what comes next may be no validation any more."""
        if self.listens():
            self.end_wait()
            self.loaders.ended()
            self._end_slice("epoch", -1)

    def fetched(self, given: Given, batch: Any) -> None:
        """The batch is there, and the work on it begins."""
        waited_us = self.end_wait()
        self._working = "loader"
        self.loaders.got(given[0][0], batch, waited_us)

    def count_batch(self, _: Any) -> None:
        """A batch was there, which was not looked at."""
        self._working = "loader"
        self.loaders.counted(self.end_wait())

    def scaled(self, loss: Any, result: Any) -> None:
        """A gradient scaler multiplied the loss; remember what it was before."""
        self._unscaled = (id(result), loss)

    def rescaled(self, scale: Any) -> None:
        """A gradient scaler has set the scale of the next step."""
        self._scale = self.keep(scale)

    def clipped(self, norm: Any) -> None:
        """The gradients were clipped by their norm, which was kept."""
        self._gradient_norm = norm

    def begin_backward(self, given: Given) -> bool:
        """A backward pass begins; its root is the loss, perhaps scaled."""
        if get_ident() != self.thread or not self.clock.enter(BACKWARD):
            return False
        root = root_of(given)
        self.loaders.backward_passes += 1
        known, loss = self._unscaled
        kept = self.keep(loss if known == id(root) else root)
        self._losses.append(kept)
        self._unscaled = (0, None)
        if self._looked_at or not self._scope.forensics.is_usual(kept):
            for line in self._scope.backward_begins(root, kept, self.steps.done):
                self._writer.line(line)
        if self._exchange.peers is not False:
            self._exchange.backward_begins(root)
        return True

    def count_backward(self, loss: float | None) -> None:
        """A backward pass began at a loss that is nothing to look into."""
        self.clock.enter(BACKWARD)
        self.loaders.backward_passes += 1
        self._losses.append(loss)
        self._scope.forensics.is_usual(loss)

    def end_backward(self, *_: Any) -> None:
        """The backward pass is over."""
        wall_us = self.clock.leave()
        if self._exchange.peers:
            self._exchange.backward_ends(wall_us)

    def begin_exchange(self) -> bool:
        """A collective is called; false where that does not count."""
        return self.listens() and self._exchange.begin()

    def end_exchange(self) -> None:
        """The collective has come back."""
        self._exchange.end()

    def begin(self, kind: str) -> None:
        """The next batch or model call begins: what went before was the work on the last one."""
        if self.listens():
            worked, self._working = self._working == kind, kind if kind == "module" else ""
            self.clock.spend()
            self._end_slice(kind if worked else "start", self._last.get(kind, -1))

    def called(self, module: Any) -> None:
        """A model, or a compiled function, is called by the script itself."""
        if self.listens() and not self.in_function and not is_compiling():  # as torch.export does
            self.begin("module")
            number = self.numbers.of(module)
            if number is None:
                name = getattr(module, "__name__", type(module).__name__)  # or a function's own
                number = self.numbers.give(module, {"module": name})
            self._last["module"] = number

    def optimizer_built(self, optimizer: Any) -> None:
        """An optimizer is being built."""
        if self.listens():
            self.optimizers.built(optimizer)

    def begin_scaled_step(self) -> bool:
        """A gradient scaler is asked for a step, which it may skip."""
        if not self.listens():
            return False
        self._awaits_step = True
        return True

    def end_scaled_step(self, optimizer: Any) -> None:
        """A skipped step counts: what is fused does not skip, and its steps are to be compared."""
        if self._awaits_step and isinstance(optimizer, Optimizer):
            self.begin_step(id(optimizer))
            self.end_step(optimizer)

    def begin_step(self, optimizer: int) -> None:
        """An optimizer begins to step; it is known by its id."""
        self._awaits_step = False
        if optimizer in self._stepping:  # its last step has raised, and the script goes on
            self._stepping.clear()
            self.clock.open.clear()
        self._stepping[optimizer] = self.clock.enter(OPTIMIZER)

    def end_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self._stepping.pop(id(optimizer), False):
            self.clock.leave()
            number = self.numbers.of(optimizer)
            if number is None:
                number = self.numbers.give(optimizer, self.optimizers.described(optimizer))
            self._end_optimizer_slice(number)

    def count_step(self, optimizer: tuple[int, int]) -> None:
        """An optimizer has stepped, of which the id and the number were noted."""
        known_as, number = optimizer
        if self._stepping.pop(known_as, False):
            self.clock.leave()
            self._end_optimizer_slice(number)

    def _end_optimizer_slice(self, number: int) -> None:
        if not self.other_steps:
            self._end_model_steps()
        self._end_slice("optimizer", number)

    def cut(self, kind: str) -> None:
        """An event of a kind that may end a step, or, of the kind ``OUTSIDE``, what is in none."""
        if self.listens():
            self.clock.spend()
            self._end_slice(kind, -1)

    def hears(self) -> bool:
        """Whether this thread is recorded."""
        return get_ident() == self.thread

    def listens(self) -> bool:
        """Whether this thread is recorded, and from now on as things happen."""
        if get_ident() != self.thread:
            return False
        if self.notes.taken:
            self.notes.end()
        return True

    def allows_notes(self) -> bool:
        """Whether the next steps are like the last one, and none of them is looked at."""
        return (
            self.alive
            and self.may_note
            and self.steps.cut_themselves
            and self.steps.done >= self.notes.not_before
            and self.steps.done + MOST_STEPS < min(self._scope.rests_until, self._limit)
            and self._exchange.peers is False
            and self.loaders.is_settled(self._loader)
            and self._unscaled[1] is None
            and not (self._looked_at or self._meter.on_gpu or self.clock.open)
        )

    def accounted(self) -> None:
        """All that was noted is accounted for; what was planned meanwhile lies in the past."""
        self._cores.waited_us()
        if self._anew:
            self._anew = False
            self._begin_anew()

    def fail(self, error: Exception) -> None:
        """Our own failure: say so in one line, get out of the way, let the script go on."""
        if self.alive:
            said = f"{type(error).__name__}: {error}".partition("\n")[0]  # CUDA says more
            complain(f"recording stopped: {said}")
            attempt(lambda: [*self._scope.finish()])
            attempt(self._writer.close)
            attempt(self._let_go)

    def abandon(self) -> None:
        """Record nothing more; what is not yet written is left to the parent of a fork."""
        self.alive = False
        self.thread = NO_THREAD

    def close(self) -> None:
        """Write what is left, and put torch back as it was."""
        if self.alive:
            attempt(self._write_rest, failed=self.fail)
        if self.alive:
            attempt(self._let_go, failed=self.fail)

    def _write_rest(self) -> None:
        self.notes.account()
        self.clock.spend()
        self._meter.read_memory()
        self._write_slice("end", -1)
        for row in self._meter.finish():
            self._writer.row(row)
        self.loaders.finish()
        for line in self._scope.finish():
            self._writer.line(line)
        self._writer.line(compiled())
        self._writer.close()

    def _let_go(self) -> None:
        """Undo every hook and hold nothing: what of torch outlives the interpreter may crash it."""
        undo = self.undo
        self._cores.close()
        vars(self).clear()
        self.abandon()
        undo()

    def keep(self, value: Any) -> Any:
        """What is needed to read a number later; the script's own profiler must not see it."""
        if internals.is_profiling() and not self._scope.profiles:
            return None
        return self._meter.keep(value)

    def _end_slice(self, kind: str, number: int) -> None:
        steps = self.steps
        kind_before, done_before = steps.kind, steps.done
        ended = steps.add(kind, number)
        self._write_slice(kind, number)
        prepared = steps.kind != kind_before
        if prepared:
            self._writer.line({"anew": True})  # forget what was inspected so far: preparation
        if prepared or steps.done < done_before:  # more makes a step than it seemed
            self._begin_anew()
        if ended:
            self._at_step_end(steps.done)

    def _begin_anew(self) -> None:
        """What is looked at now is no step: look no more at that, but at later ones."""
        self._anew = self.clock.at_us > 0
        self._scope.stop()
        self._looked_at = 0
        scope = self._scope
        self._scope = Scope(self.options, scope.phase, scope.forensics, self.steps.done)

    def _write_slice(self, kind: str, number: int) -> None:
        clock, meter, exchange = self.clock, self._meter, self._exchange
        row = [
            clock.cursor_us - clock.begun_us,
            kind,
            number,
            self._loader,
            self._looked_at,
            *clock.spent,
            exchange.spent_us,
            None if clock.at_us else self._cores.waited_us(),  # of what is past nobody knows
        ]
        clock.spent = [0] * len(PHASES)
        exchange.spent_us = 0
        values = [list(self._losses), self._gradient_norm, self._scale]
        noted = clock.at_us > 0  # it is too late to read anything
        for complete in meter.complete(row, values, noted):
            self._writer.row(complete)
            if meter.on_gpu and not all(map(isfinite, complete[LOSSES])):  # there it is known late
                self._scope.forensics.known_late()
        self._losses.clear()
        self._gradient_norm = self._scale = None

    def _at_step_end(self, done: int) -> None:
        self._pace.step_ended(done, self.clock.cursor_us)
        now = not self.clock.at_us  # what is past cannot end the run
        if now and not self._told and self._scope.has_seen_enough(done):
            self._tell(done)
        limit = done if self.on_step_end(done) else self._limit
        late = self._meter.on_gpu and not self._scope.timed  # a GPU has come into use
        if (late or done >= self._scope.rests_until) and not self.clock.at_us:
            self._inspect(done)
        self.clock.skip()  # our own work belongs to no step
        self._cores.waited_us()
        if done >= limit and self.steps.are_enough(limit, self.optimizers):
            self._end(done)

    def _end(self, done: int) -> None:
        """End the run, perhaps after some more steps that are none of the recording."""
        options, fed = self.options, self.loaders.feeding
        self.close()
        asked = (options.folder, fed, done, StopAfterSteps)
        if not (options.headspace and attempt(headspace.begins, *asked, otherwise=False)):
            raise StopAfterSteps(0)

    def _tell(self, done: int) -> None:
        """Enough was seen for a report: the process that waits for us finds all of it written."""
        self._told = True
        self._writer.flush()
        attempt((Path(self.options.folder) / ENOUGH).write_text, str(done))
        if self.options.quick:
            self._limit = min(self._limit, done)

    def _inspect(self, done: int) -> None:
        """Begin or end what is done to chosen steps: first some are inspected, then sampled."""
        for line in self._scope.step_ended(done):
            self._writer.line(line)
        if self._scope.wants(done):
            self._scope.step_begins(done, self.thread, self.optimizers.living())
        if self._looked_at or self._scope.active:
            self._meter.skip()
        self._looked_at = int(self._scope.active)
