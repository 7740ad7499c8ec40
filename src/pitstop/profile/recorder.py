"""Recorder: turns what the hooks see into slices of time, and writes them down as the run goes.

The run is one line of time, cut at every fetched batch, optimizer step and outermost model call.
Each slice says how long it took and how that splits into phases; a cursor moves along the line,
so the phases add up to the slice. Which slices make a step is decided when all is known
(``collect``); here steps are only counted, to know when to inspect and when to stop.

All this happens in every step of every run, so it is written to be cheap: times are whole
microseconds, and nothing is formatted before it is written.
"""

import sys
from collections.abc import Callable
from math import isfinite
from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import Any

import torch

from pitstop.profile.compiling import compiled
from pitstop.profile.loaders import Loaders
from pitstop.profile.made import reference
from pitstop.profile.meters import Meter
from pitstop.profile.optimizers import Optimizers
from pitstop.profile.options import Options
from pitstop.profile.pattern import KINDS, Cycle
from pitstop.profile.quiet import attempt
from pitstop.profile.scope import Scope
from pitstop.profile.writer import Writer

PHASES = ("wait", "forward", "backward", "optimizer", "saving", "other")
NOTHING_SPENT = dict.fromkeys(PHASES, 0)
LOSS = 14  # its column in a slice
SELF_CUTTING = ("marked", "optimizer")  # with these a step has an end of its own


class StopAfterSteps(SystemExit):
    """Ends the script after ``--steps``: finalisers run, and the exit code is 0."""


class Recorder:
    """The state of one recorded process. Only the thread that imported torch is listened to."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.alive = True
        self.step_kind = KINDS[-1]  # what ends a step: the strongest kind seen so far
        self.undo: Callable[[], None] = lambda: None
        self.on_first_step: Callable[[], None] = lambda: None
        self.on_step_end: Callable[[int], object] = lambda _: None  # how many are done
        self.on_other_steps: Callable[[], None] = lambda: None  # steps are not model calls
        self._thread = get_ident()
        self._writer = Writer(options.folder, options.redact)
        self._meter = Meter()
        self._scope = Scope(options)
        self._scope.phase = lambda: self._open[-1] if self._open else ""
        self._loaders = Loaders(self._next_number, self._writer)
        self._optimizers = Optimizers()
        self._cycles = {kind: Cycle() for kind in KINDS}
        self._numbers: dict[int, tuple[int, Callable[[], Any]]] = {}  # by id; not kept alive
        self._count = -1
        self._open: list[str] = []  # phases begun and not ended
        self._other_steps = False  # whether steps are batches or optimizer steps
        self._loader = -1
        self._working = ""  # what the current slice works on: a batch, a model call, or nothing
        self._last: dict[str, int] = {}  # the module of the current call
        self._loss = self._gradient_norm = self._scale = None
        self._unscaled: tuple[int, Any] = (0, None)
        self._collective_us = 0
        self._peers: bool | None = None  # whether there are other ranks; known with the first loss
        self._own: tuple[int, int] | None = None  # clocks at the begin of a backward pass
        self._begun = self._cursor = now_us()
        self._spent = NOTHING_SPENT.copy()

    def enter(self, phase: str) -> bool:
        """Begin a phase; false where it does not count: nested in another, or another thread.

        What lies between the last event and a backward pass is the forward pass. An optimizer
        step may run both inside itself (a closure), and then they count as themselves.
        """
        if not self.alive or get_ident() != self._thread:
            return False
        if self._open and (self._open != ["optimizer"] or phase == "saving"):
            return False
        self._spend("forward" if phase == "backward" else "other")
        self._open.append(phase)
        return True

    def leave(self, phase: str) -> int:
        """End a phase that ``enter`` began; return its microseconds."""
        self._open.pop()
        return self._spend(phase)

    def loader_built(self, loader: Any, dataset: Any) -> None:
        """A DataLoader is being built."""
        if self.listens():
            self._loaders.built(loader, dataset)

    def loader_not_built(self, loader: Any, dataset: Any) -> None:
        """The building of a DataLoader has failed."""
        if self.listens():
            self._loaders.not_built(loader, dataset)

    def begin_epoch(self, loader: Any) -> bool:
        """The script begins to iterate over a loader, which may have to start its workers."""
        if not self.listens() or self._open:
            return False
        return self._begin_wait(self._loaders.number_of_loader(loader))

    def epoch_begun(self, loader: Any, iterator: Any) -> None:
        """The loader is ready to be asked for batches."""
        self._loaders.started(loader, iterator, self.end_wait())

    def begin_wait(self, iterator: Any) -> bool:
        """The script asks for a batch; false where it is not the script that asks.

        The first request also tells the loader's settings, so a run that waits forever has them.
        """
        if not self.listens() or self._open:
            return False
        return self._begin_wait(self._loaders.number(iterator))

    def _begin_wait(self, number: int) -> bool:
        if number != self._loader or self.step_kind not in SELF_CUTTING:
            self.begin("loader")  # else the optimizer cuts, and once a step is enough
        if not self._other_steps:
            self._end_model_steps()
        self._loader = number
        if self._meter.on_gpu:
            self._meter.wait_begins()
        self._spend("other")
        self._open.append("wait")
        return True

    def _end_model_steps(self) -> None:
        self._other_steps = True
        self.on_other_steps()

    def end_wait(self) -> int:
        """The waiting is over, with a batch or without; return its microseconds."""
        if self._meter.on_gpu:
            self._meter.wait_ends()
        return self.leave("wait")

    def fetched(self, iterator: Any, batch: Any) -> None:
        """The batch is there, and the work on it begins; at the end of an epoch there is none."""
        waited_us = self.end_wait()
        self._working = "loader"
        self._loaders.got(iterator, batch, waited_us)

    def scaled(self, loss: Any, result: Any) -> None:
        """A gradient scaler multiplied the loss; remember what it was before."""
        if self.listens():
            self._unscaled = (id(result), loss)

    def rescaled(self, scale: Any) -> None:
        """A gradient scaler has set the scale of the next step."""
        if self.listens():
            self._scale = self._keep(scale)

    def clipped(self, norm: Any) -> None:
        """The norm of the gradients was computed, to clip them."""
        if self.listens():
            self._gradient_norm = self._keep(norm)

    def begin_backward(self, root: Any) -> bool:
        """A backward pass begins at ``root``, which is the loss, perhaps scaled."""
        if not self.enter("backward"):
            return False
        known, loss = self._unscaled
        self._loss = self._keep(loss if known == id(root) else root)
        self._unscaled = (0, None)
        for line in self._scope.backward_begins(root, self._loss, self.steps):
            self._writer.line(line)
        if self._peers is None:
            self._peers = _has_peers()
        if self._peers and root is not None and not root.is_cuda:
            self._own = thread_time_ns(), self._collective_us
        return True

    def end_backward(self) -> None:
        """The backward pass is over.

        On a CPU the gradients are exchanged within it, out of sight: where there are other ranks,
        the time in which this thread did not run is the time it waited for them.
        """
        wall_us = self.leave("backward")
        if self._own:
            (begun_ns, collective_us), self._own = self._own, None
            waited_us = wall_us - (thread_time_ns() - begun_ns) // 1000
            self._collective_us = max(self._collective_us, collective_us + waited_us)

    def exchanged(self, begun_us: int) -> None:
        """A call of torch.distributed, begun at that time, has come back."""
        self._collective_us += now_us() - begun_us

    def begin(self, kind: str) -> None:
        """The next batch or model call begins: what went before was the work on the last one."""
        if self.listens():
            worked, self._working = self._working == kind, kind if kind == "module" else ""
            self._spend("other")
            self._end_slice(kind if worked else "start", self._last.get(kind, -1))

    def called(self, module: Any) -> None:
        """A model is called by the script itself."""
        if self.listens():
            self.begin("module")
            self._last["module"] = self._number(module, _module)

    def optimizer_built(self, optimizer: Any) -> None:
        """An optimizer is being built."""
        if self.listens():
            self._optimizers.built(optimizer)

    def died(self) -> None:
        """The step of an optimizer has raised, and the script goes on: nothing is open any more."""
        self._open.clear()

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self.leave("optimizer")
        if not self._other_steps:
            self._end_model_steps()
        self._end_slice("optimizer", self._number(optimizer, self._optimizers.described))

    def mark_begins(self) -> None:
        """The script says that a step of its own begins: what went before belongs to none."""
        if self.listens():
            self._spend("other")
            self._end_slice("outside", -1)

    def mark_ends(self) -> None:
        """The script says that the step ends."""
        if self.listens():
            self._spend("other")
            self._end_slice("marked", -1)

    def listens(self) -> bool:
        """Whether this thread is recorded."""
        return self.alive and get_ident() == self._thread

    @property
    def steps(self) -> int:
        """Steps finished so far."""
        return self._cycles[self.step_kind].complete

    def fail(self, error: Exception) -> None:
        """Our own failure: say so in one line, get out of the way, let the script go on."""
        if self.alive:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            sys.stderr.write(f"pitstop: recording stopped: {said}\n")
            attempt(lambda: [*self._scope.finish()], None)
            attempt(self._writer.close, None)
            self._let_go()

    def abandon(self) -> None:
        """Record nothing more; what is not yet written is left to the parent of a fork."""
        self.alive = False

    def close(self) -> None:
        """Write what is left, and put torch back as it was."""
        if self.alive:
            try:
                self._write_rest()
                self._let_go()
            except Exception as error:  # noqa: BLE001 never in the user's way
                self.fail(error)

    def _write_rest(self) -> None:
        self._spend("other")
        self._write_slice("end", -1)
        for row in self._meter.finish():
            self._writer.row(row)
        self._loaders.finish()
        for line in self._scope.finish():
            self._writer.line(line)
        self._writer.line(compiled())
        self._writer.close()

    def _let_go(self) -> None:
        """Undo every hook and hold nothing: what of torch outlives the interpreter may crash it."""
        undo = self.undo
        vars(self).clear()
        self.abandon()
        undo()

    def _spend(self, phase: str) -> int:
        now = perf_counter_ns() // 1000
        passed = now - self._cursor
        self._spent[phase] += passed
        self._cursor = now
        return passed

    def _keep(self, value: Any) -> Any:
        if not self._scope.active:
            return self._meter.keep(value)
        with torch._C._DisableTorchDispatch():  # an inspected step must not see our own reading
            return self._meter.keep(value)

    def _next_number(self) -> int:
        self._count += 1
        return self._count

    def _number(self, subject: Any, describe: Callable[[Any], dict[str, Any]]) -> int:
        """A small number for an object; its first use writes the object's description."""
        number, living = self._numbers.get(id(subject), (-1, lambda: None))
        if living() is not subject:
            number = self._next_number()
            self._numbers[id(subject)] = number, reference(subject)
            self._writer.line_now({"number": number, **describe(subject)})
        return number

    def _end_slice(self, kind: str, number: int) -> None:
        cycle = self._cycles.get(kind)
        ended = cycle is not None and cycle.add(number)
        if cycle and kind != self.step_kind and KINDS.index(kind) < KINDS.index(self.step_kind):
            self.step_kind = kind
        self._write_slice(kind, number)
        if ended and cycle and kind == self.step_kind:
            self._at_step_end(cycle.complete)

    def _write_slice(self, kind: str, number: int) -> None:
        now = self._cursor
        row = [
            now - self._begun,
            kind,
            number,
            self._loader,
            int(self._scope.active),
            *self._spent.values(),
            self._collective_us,
        ]
        for complete in self._meter.complete(row, [self._loss, self._gradient_norm, self._scale]):
            self._writer.row(complete)
            if not isfinite(complete[LOSS] or 0.0):  # on a GPU that is known late
                self._scope.forensics.known_late()
        self._loss = self._gradient_norm = self._scale = None
        self._collective_us = 0
        self._spent = NOTHING_SPENT.copy()

    def _at_step_end(self, done: int) -> None:
        if done == 1:
            self.on_first_step()
        self.on_step_end(done)
        self._inspect(done)
        if self.options.steps and done >= self.options.steps and not self._awaits_optimizer():
            self.close()
            raise StopAfterSteps(0)

    def _inspect(self, done: int) -> None:
        """Begin or end what is done to chosen steps: first some are inspected, then sampled."""
        for line in self._scope.step_ended(done):
            self._writer.line(line)
        if self._scope.wants(done) and not self._awaits_optimizer():
            self._scope.step_begins(done, self._thread, self._optimizers.living())
        self._cursor = now_us()  # our own work belongs to no step

    def _awaits_optimizer(self) -> bool:
        """Whether there is an optimizer that has not stepped yet: batches prove nothing."""
        return self.step_kind not in SELF_CUTTING and bool(self._optimizers.living())


def now_us() -> int:
    """The clock that all times are read from."""
    return perf_counter_ns() // 1000


def _module(module: Any) -> dict[str, Any]:
    return {"module": type(module).__name__}


def _has_peers() -> bool:
    """Whether this process is one rank of several."""
    ranks = torch.distributed
    return ranks.is_available() and ranks.is_initialized() and ranks.get_world_size() > 1
