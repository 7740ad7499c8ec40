"""CUDA graphs of a model as it is, without a compiler.

Why it is slow in plain PyTorch: each operation is launched from Python, some 5 to 10 us of CPU
time, and a GPU that is done in 2 waits. A Stable Diffusion 1.5 U-Net call in fp16 takes 24 ms on an
H200, of which the GPU works 12. A graph launches all of it at once.

What is done: the first calls of each kind (shapes, layouts, types, modes of torch, state of the
model) run as they are; they are the warm-up, so buffers and random numbers are as if there had been
none. The next one is captured, which computes nothing, and replayed; so are all that follow. All
graphs of a model share one memory pool. In training, the backward pass is a second graph.

The same kernels run in the same order on the same numbers: results, gradients, buffers and random
numbers of the GPU are equal to the last bit, where the model's own kernels are repeatable.

What runs as it is, with the reason counted: kinds of calls that are rare; models with hooks, or
that print, wait for the GPU, draw random numbers on the CPU, change themselves or their inputs; a
call between another one and its backward pass (the second one of a critic's two, say); calls inside
a checkpoint, from another thread, on another stream; a gradient that is differentiated again. A
function that a model calls for its effect alone (a log of its own, say) is called no more.

Not supported: models on several GPUs; a second backward pass after another call (an error). A copy
of the model, and a saved one, has no graphs. The plain twin is the model itself.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, get_ident
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.graphs.arguments import Given, read
from pitstop.parts.graphs.device import Cuda, Device
from pitstop.parts.graphs.inference import Call, Inference
from pitstop.parts.graphs.modes import modes, obstacle
from pitstop.parts.graphs.reasons import Declined, Reason
from pitstop.parts.graphs.training import Memory, Training, check_way_back
from pitstop.parts.graphs.watch import Seen, Watch
from pitstop.parts.graphs.weights import State, States

MOST_GRAPHS = 8  # each keeps memory of its own for what it is given and returns
FIRST_CALLS = 2  # as they are; libraries are loaded and kernels chosen by then
PATIENCE = 8  # calls to wait for a backward pass
MOST_KINDS = 256  # remembered; only a model that is given new numbers each time has more


@dataclass(slots=True)
class Kind:
    """What is known of one kind of call."""

    calls: int = 0
    watch: Watch = field(default_factory=Watch)
    graph: Inference | Training | None = None
    declined: tuple[Reason, str] | None = None


class Graphs:
    """The graphs of one model; call it to undo them all."""

    def __init__(
        self,
        model: nn.Module,
        most: int = MOST_GRAPHS,
        first: int = FIRST_CALLS,
        say: Callable[[str], object] | None = None,
        variant: Callable[[], Hashable] = lambda: None,
        come_back: bool = False,
        device: Callable[[torch.device], Device] = Cuda,
        shared: Callable[[torch.device], Device] | None = None,
    ) -> None:
        self._model = model
        self._most = most
        self._first = first
        self._variant = variant  # of the model, as far as only its owner knows it
        self._come_back = come_back  # its weights, to where they lay before
        self._say = say or to_stderr
        self._make_device = device
        self._shared = shared  # with other models, where nothing is learned
        self._alone = Lock()
        self._said: set[Reason] = set()
        self.undo: Callable[[], None] = lambda: None
        self.calls = 0
        self.replayed = 0
        self.reasons: Counter[Reason] = Counter()
        self.forget()

    def __str__(self) -> str:
        return told(self.calls, self.replayed, self.reasons)

    def __call__(self) -> None:
        """Undo: the model runs as it is, and the memory of the graphs is free."""
        self.forget()
        self.undo()

    def forget(self) -> None:
        """Drop all graphs, and so their memory."""
        self._kinds: dict[tuple[Any, ...], Kind] = {}
        self._states = States(self._model, self._come_back)
        self._memory = Memory()
        self._where: torch.device | None = None
        self._device: Device | None = None
        self._owner: tuple[int, int] | None = None  # thread and stream

    def around(self, call: Call, *arguments: Any, **options: Any) -> Any:
        """Do what ``call`` does with these arguments, by a graph where there is one."""
        self.calls += 1
        as_it_is = partial(call, *arguments, **options)
        try:
            with self._by_itself():
                given, state, device, kind = self._find(arguments, options)
                if kind.graph is None:
                    if self._is_early(kind, given, state):
                        return self._watched(kind, state, device, as_it_is)
                    self._capture(kind, call, given, state, device)
                return self._replay(kind, given)
        except Seen as seen:
            self._tell(seen.declined)
            return seen.result
        except Declined as declined:
            self._tell(declined)
        return as_it_is()

    @contextmanager
    def _by_itself(self) -> Iterator[None]:
        if not self._alone.acquire(blocking=False):
            raise Declined(Reason.THREAD)
        try:
            yield
        finally:
            self._alone.release()

    def _find(
        self, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Given, State, Device, Kind]:
        """The kind of this call; raise where it can only run as it is."""
        if (reason := obstacle() or self._states.restless) is not None:
            raise Declined(reason)
        device = self._present()
        number, state = self._states.now()
        if state.hooked:
            raise Declined(Reason.HOOKED)
        if state.device() != self._where or self._where is None:
            raise Declined(Reason.NOT_CUDA)
        given = read(arguments, options, self._where)
        key = (number, self._variant(), modes(self._where.type), given.key)
        if key not in self._kinds:
            self._make_room()
        kind = self._kinds.setdefault(key, Kind())
        if kind.declined is not None:
            raise Declined(*kind.declined)
        if self._memory.is_awaited:
            raise Declined(Reason.PENDING)
        return given, state, device, kind

    def _present(self) -> Device:
        """The device of the weights; raise where this is no ordinary call on it."""
        where = next((each.device for each in self._model.parameters()), None)
        if where is None or (where.type != "cuda" and self._make_device is Cuda):
            raise Declined(Reason.NOT_CUDA)
        if self._device is None or where != self._where:
            self.forget()
            self._where, self._device = where, self._make_device(where)
        if not self._device.is_free():
            raise Declined(Reason.MODE)
        owner = get_ident(), self._device.stream()
        self._owner = self._owner or owner
        if owner != self._owner:
            raise Declined(Reason.THREAD)
        return self._device

    def _make_room(self) -> None:
        """Graphs of weights that are gone go, and the oldest kinds that have none."""
        there = self._states.numbers()
        self._kinds = {key: kind for key, kind in self._kinds.items() if key[0] in there}
        idle = [key for key, kind in self._kinds.items() if kind.graph is None]
        for key in idle[: max(len(self._kinds) - MOST_KINDS, 0)]:
            del self._kinds[key]

    def _is_early(self, kind: Kind, given: Given, state: State) -> bool:
        """Whether a call runs as it is and is looked at; the very first is not even that."""
        kind.calls += 1
        if kind.calls < self._first:
            raise Declined(Reason.FIRST)
        waits = _learns(given, state) and not kind.watch.all_reached and kind.calls <= PATIENCE
        if kind.calls == self._first or waits:
            return True
        if sum(each.graph is not None for each in self._kinds.values()) >= self._most:
            raise Declined(Reason.RARE)
        return False

    def _watched(
        self, kind: Kind, state: State, device: Device, as_it_is: Callable[[], Any]
    ) -> Any:
        self.reasons[Reason.FIRST] += 1
        try:
            return kind.watch.call(device, state, as_it_is)
        except Seen as seen:
            self.reasons[Reason.FIRST] -= 1
            kind.declined = seen.declined.reason, seen.declined.detail
            raise

    def _capture(self, kind: Kind, call: Call, given: Given, state: State, device: Device) -> None:
        try:
            if _learns(given, state):
                check_way_back(kind.watch.all_reached, kind.watch.twice)
            if kind.watch.wanted:
                kind.graph = Training(device, self._model, call, given, state.tensors, self._memory)
            else:
                place = self._shared(state.tensors[0].device) if self._shared else device
                kind.graph = Inference(place, call, given, state.tensors)
            if not state.holds():
                raise Declined(Reason.CHANGES_ITSELF)
        except Declined as declined:
            kind.graph, kind.declined = None, (declined.reason, declined.detail)
            raise
        except Exception as error:  # noqa: BLE001 a stranger's code, in a state that it does not know
            kind.graph, kind.declined = None, (Reason.FAILED, _first_line(error))
        if kind.declined is not None:
            raise Declined(*kind.declined)

    def _replay(self, kind: Kind, given: Given) -> Any:
        assert kind.graph is not None  # ``_capture`` has made it, or raised
        self._memory.overwritten()
        result = kind.graph(given)
        self.replayed += 1
        self._states.replayed()
        return result

    def _tell(self, declined: Declined) -> None:
        """Count it; the first time of each reason, say so."""
        self.reasons[declined.reason] += 1
        usual = declined.reason in {Reason.FIRST, Reason.BACKWARD}
        if not usual and declined.reason not in self._said:
            self._said.add(declined.reason)
            self._say(f"{type(self._model).__name__} runs as it is: {declined}")


def _learns(given: Given, state: State) -> bool:
    """Whether a backward pass may follow."""
    wanted = any(state.learning) or any(each.requires_grad for each in given.tensors)
    return torch.is_grad_enabled() and wanted


def put_in_place(model: nn.Module, graphs: Graphs) -> Callable[[], None]:
    """Let calls of ``model`` go by its graphs; what undoes that."""
    before = internals.compiled_call(model)

    def slot(*arguments: Any, **options: Any) -> Any:
        return graphs.around(before or internals.call_of(model), *arguments, **options)

    setattr(model, internals.COMPILED_CALL, slot)
    return lambda: setattr(model, internals.COMPILED_CALL, before)


def told(calls: int, replayed: int, reasons: Counter[Reason]) -> str:
    """How many calls were replayed, and why others were not."""
    others = [f"{times} not, as {why.value}" for why, times in reasons.items() if times]
    return "; ".join([f"replayed {replayed} of {calls} calls", *others])


def to_stderr(text: str) -> None:
    """A line of ours."""
    sys.stderr.write(f"pitstop: graphed: {text}\n")


def _first_line(error: BaseException) -> str:
    """Of the first error: later ones only say that capturing is over."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}".splitlines()[0]
