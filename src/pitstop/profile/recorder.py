"""Recorder: turns what the hooks see into slices of time, and writes them down as the run goes.

The run is one line of time, cut at every fetched batch, optimizer step and outermost model call.
Each slice says how long it took and how that splits into phases; a cursor moves along the line,
so the phases add up to the slice. Which slices make a step is decided when all is known
(``collect``); here steps are only counted, to know when to inspect and when to stop.
"""

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from pitstop.profile.meters import Meter
from pitstop.profile.options import Options
from pitstop.profile.pattern import KINDS, Cycle
from pitstop.profile.scope import Scope
from pitstop.profile.writer import Writer

PHASES = ("wait", "forward", "backward", "optimizer", "saving", "other")


class StopAfterSteps(SystemExit):
    """Ends the script after ``--steps``: finalisers run, and the exit code is 0."""


class Recorder:
    """The state of one recorded process. Only the thread that imported torch is listened to."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.alive = True
        self.undo: Callable[[], None] = lambda: None
        self.on_first_step: Callable[[], None] = lambda: None
        self.on_other_steps: Callable[[], None] = lambda: None  # steps are not model calls
        self._thread = threading.get_ident()
        self._writer = Writer(options.folder, options.redact)
        self._meter = Meter()
        self._scope = Scope(options)
        self._cycles = {kind: Cycle() for kind in KINDS}
        self._numbers: dict[int, tuple[int, Callable[[], Any]]] = {}  # by id; not kept alive
        self._count = -1
        self._open: list[str] = []  # phases begun and not ended
        self._trains = False  # whether a batch was fetched or a backward pass seen
        self._learns = False
        self._loader = -1
        self._working = ""  # what the current slice works on: a batch, a model call, or nothing
        self._last: dict[str, int] = {}  # the module of the current call
        self._loss: Any = None
        self._unscaled: tuple[int, Any] = (0, None)
        self._begun = self._cursor = self._cut = perf_counter()
        self._spent = dict.fromkeys(PHASES, 0.0)

    def enter(self, phase: str) -> bool:
        """Begin a phase; false where it does not count: nested in another, or another thread.

        What lies between the last event and a backward pass is the forward pass. An optimizer
        step may run both inside itself (a closure), and then they count as themselves.
        """
        if not self.listens():
            return False
        if self._open and (self._open != ["optimizer"] or phase == "saving"):
            return False
        if not self._trains and phase in {"wait", "backward"}:
            self._trains = True
            self.on_other_steps()
        self._spend("forward" if phase == "backward" else "other")
        self._open.append(phase)
        return True

    def leave(self, phase: str) -> None:
        """End a phase that ``enter`` began."""
        self._open.pop()
        self._spend(phase)

    def begin_wait(self, loader: Any, settings: Callable[[], dict[str, Any]]) -> bool:
        """The script asks for a batch; false where it is not the script that asks.

        The first request also tells the loader's settings, so a run that waits forever has them.
        """
        if not self.listens() or self._open:
            return False
        number = self._number(loader, lambda: {"loader": settings()})
        if number != self._loader or self.step_kind not in {"marked", "optimizer"}:
            self.begin("loader")  # else the optimizer cuts, and once a step is enough
        self._loader = number
        return self.enter("wait")

    def fetched(self) -> None:
        """The batch is there, and the work on it begins; at the end of an epoch there is none."""
        self._working = "loader"

    def scaled(self, loss: Any, result: Any) -> None:
        """A gradient scaler multiplied the loss; remember what it was before."""
        self._unscaled = (id(result), loss)

    def differentiated(self, root: Any) -> None:
        """A backward pass begins at ``root``, which is the loss, perhaps scaled."""
        self._learns = True
        known, loss = self._unscaled
        self._loss = self._meter.keep(loss if known == id(root) else root)
        self._unscaled = (0, None)

    def begin(self, kind: str) -> None:
        """The next batch or model call begins: what went before was the work on the last one."""
        if self.listens():
            worked, self._working = self._working == kind, kind if kind == "module" else ""
            self._end_slice(kind if worked else "start", self._last.get(kind, -1))

    def called(self, module: Any) -> None:
        """A model is called by the script itself."""
        if self.listens():
            self.begin("module")
            self._last["module"] = self._number(module, lambda: {"module": type(module).__name__})

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self.listens():
            name = type(optimizer).__name__
            self._end_slice("optimizer", self._number(optimizer, lambda: {"optimizer": name}))

    def mark_begins(self) -> None:
        """The script says that a step of its own begins: what went before belongs to none."""
        if self.listens():
            self._end_slice("outside", -1)

    def mark_ends(self) -> None:
        """The script says that the step ends."""
        if self.listens():
            self._end_slice("marked", -1)

    def listens(self) -> bool:
        """Whether this thread is recorded."""
        return self.alive and threading.get_ident() == self._thread

    def _end_slice(self, kind: str, number: int) -> None:
        self._spend("other")
        ended = kind in self._cycles and self._cycles[kind].add(number)
        self._write_slice(kind, number)
        if ended and kind == self.step_kind:
            self._at_step_end(self._cycles[kind].complete)

    @property
    def step_kind(self) -> str:
        """What ends a step, as far as is known now: the strongest kind seen so far."""
        return next((kind for kind in KINDS if self._cycles[kind].calls), "module")

    @property
    def steps(self) -> int:
        """Steps finished so far."""
        return self._cycles[self.step_kind].complete

    def fail(self, error: Exception) -> None:
        """Our own failure: say so in one line, get out of the way, let the script go on."""
        sys.stderr.write(f"pitstop: recording stopped: {type(error).__name__}: {error}\n")
        self.abandon()

    def abandon(self) -> None:
        """Record nothing more; what is not yet written is left to the parent of a fork."""
        self.alive = False

    def close(self) -> None:
        """Write what is left, and put torch back as it was."""
        if not self.alive:
            return
        self._spend("other")
        self._write_slice("end", -1)
        for row in self._meter.finish():
            self._writer.row(row, 0.0)
        self._writer.line({"end": perf_counter() - self._begun, "compile": _compile_counts()})
        self._writer.close()
        self.abandon()
        self.undo()

    def _spend(self, phase: str) -> None:
        now = perf_counter()
        self._spent[phase] += now - self._cursor
        self._cursor = now

    def _number(self, subject: Any, describe: Callable[[], dict[str, Any]]) -> int:
        """A small number for an object; its first use writes the object's description."""
        number, living = self._numbers.get(id(subject), (-1, lambda: None))
        if living() is not subject:
            number = self._count = self._count + 1
            self._numbers[id(subject)] = number, _reference(subject)
            self._writer.line({"number": number, **describe()})
        return number

    def _write_slice(self, kind: str, number: int) -> None:
        spent = [1e3 * seconds for seconds in self._spent.values()]
        seconds = self._cursor - self._cut
        inspected = int(self._scope.active)
        head = [self._cursor - self._begun, kind, number, self._loader, inspected]
        row = [*head, *spent, *self._meter.memory()]
        for complete in self._meter.complete(row, self._loss):
            self._writer.row(complete, seconds)
        self._cut, self._loss = self._cursor, None
        self._spent = dict.fromkeys(PHASES, 0.0)

    def _at_step_end(self, done: int) -> None:
        if done == 1:
            self.on_first_step()
        self._inspect(done)
        if self.options.steps and done >= self.options.steps and not self._awaits_optimizer():
            self.close()
            raise StopAfterSteps(0)

    def _inspect(self, done: int) -> None:
        """Begin or end what is done to chosen steps: first some are inspected, then sampled."""
        for line in self._scope.step_ended(done):
            self._writer.line(line)
        if self._scope.wants(done) and not self._awaits_optimizer():
            self._scope.step_begins(done, self._thread, self._optimizers())
        self._cursor = self._cut = perf_counter()  # our own work belongs to no step

    def _optimizers(self) -> list[Any]:
        living = [reference() for _, reference in self._numbers.values()]
        return [each for each in living if isinstance(each, torch.optim.Optimizer)]

    def _awaits_optimizer(self) -> bool:
        """Whether this is training though no optimizer has stepped yet: batches prove nothing."""
        if self.step_kind in {"marked", "optimizer"}:
            return False
        return self._learns or any(
            issubclass(type(each), torch.optim.Optimizer) for each in gc.get_objects()
        )


def _reference(subject: Any) -> Callable[[], Any]:
    """A weak reference; a strong one to what allows none, such as a list used as a dataset."""
    try:
        return weakref.ref(subject)
    except TypeError:
        return lambda: subject


def _compile_counts() -> dict[str, int]:
    """What Dynamo compiled, if it was used at all."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return {}
    counters = dynamo.counters
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": sum(counters["graph_break"].values()),
        "recompiles": sum(counters["recompiles"].values()) if "recompiles" in counters else 0,
    }
