"""Watch: a dispatch mode that counts operations by kind, line, module call and shapes."""

import os
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt, leave_no_trace
from pitstop.profile.hooks.patch import Function, Given, argument, patch, with_callbacks
from pitstop.profile.hooks.waits import HOST_CALLS, READERS, timed, waits
from pitstop.profile.inspect.dependence import Left
from pitstop.profile.inspect.flow import Flow
from pitstop.profile.inspect.tensors import shapes_of, tensors_in
from pitstop.profile.source.lines import NOWHERE, Place, user_line

RANGE = "pitstop:"  # prefix of the profiler ranges that tie kernels to operations

MOST_OPERATIONS = 4000  # kept one by one, by time; the rest is summed by kind and line

# A mode of the script's that outlives the step would be taken away with ours, and a graph that is
# compiled under ours would be compiled again without it.
COMES_FIRST = (
    (internals.TorchDispatchMode, "__enter__"),
    (TorchFunctionMode, "__enter__"),
    (torch, "compile"),
)

Key = tuple[Any, ...]


class Watch(internals.TorchDispatchMode):
    """Everything the operations of one step reveal. Nothing here changes what they compute."""

    def __init__(
        self, named: bool, phase: Callable[[], str], optimizers: list[Any], left: Left
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._named = named  # whether each operation runs in a range that the profiler sees
        self._phase = phase  # of the step, as the recorder sees it
        self._process = os.getpid()
        self._found: dict[Key, list[float]] = {}
        self._order: dict[Key, int] = {}
        self._seconds = 0.0  # in all operations so far
        self._undos: list[Callable[[], None]] = []
        self.gave_way = False  # what was seen is not the whole step
        self.flow = Flow(optimizers, left)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper of Dynamo's around us: where we look nothing is compiled."""
        return False

    def start(self) -> None:
        """Enter the mode; listen to module calls, optimizers and what leaves torch."""
        self.flow.calls.start()
        steps = register_optimizer_step_pre_hook(
            lambda optimizer, *_: attempt(self.flow.steps, optimizer)
        )
        self._undos = [
            self.flow.calls.stop,
            steps.remove,
            patch((torch.amp.grad_scaler.GradScaler,), "_maybe_opt_step", self._stepping),
            patch((torch.autograd,), "backward", self._learning),
            *(patch((torch.Tensor,), name, self._reading) for name in READERS),
            *(
                patch((owner,), attribute, self._timing(name, waiting))
                for owner, attribute, name, waiting in HOST_CALLS
            ),
        ]
        self.__enter__()  # type: ignore[no-untyped-call]
        self._undos += [patch((owner,), name, self._giving_way) for owner, name in COMES_FIRST]

    def stop(self) -> None:
        """Leave the mode, the modules and torch as they were."""
        if self._undos:
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for undo in reversed(self._undos):
            undo()
        self._undos.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation as it would have run without us, then look at it."""
        kwargs = kwargs or {}
        if func.namespace == "profiler" or os.getpid() != self._process:
            return func(*args, **kwargs)
        key, zero = attempt(self._key, func, args, kwargs, otherwise=((), False))
        begun = perf_counter()
        try:
            if self._named:
                with torch.profiler.record_function(f"{RANGE}{self._order.get(key)}"):
                    result = func(*args, **kwargs)
            else:
                result = func(*args, **kwargs)
        except BaseException as error:
            leave_no_trace(error, frames=2)  # ours, and torch's own that calls the operation
            raise
        if key:
            attempt(self._count, key, perf_counter() - begun, func, args, kwargs, result)
            attempt(self.flow.ran, func, (args, kwargs), result, (key[1], key[4]), zero)
        return result

    def operations(
        self, device_us: dict[int, float], layout_us: dict[int, float]
    ) -> list[list[Any]]:
        """The fields of ``Operation`` in their order, dearest first; the cheapest ones summed."""
        rows = []
        for key, (calls, seconds, moved, flops) in self._found.items():
            name, line, call, shapes, backward, waiting, phase = key
            device = device_us.get(self._order[key])
            numbers = [int(calls), round(seconds * 1e6, 1), device, int(moved), int(flops)]
            layout = round(layout_us.get(self._order[key], 0.0), 1)
            kind = [call, backward, waiting, phase, layout, False]
            rows.append([name, line, shapes, *numbers, *kind])
        rows.sort(key=lambda row: -max(row[4], row[5] or 0))
        return [*rows[:MOST_OPERATIONS], *_summed(rows[MOST_OPERATIONS:])]

    def waiting_lines(self, numbers: list[int | None]) -> list[Place]:
        """The lines of operations by their numbers; none: the script's own ``synchronize``."""
        lines = {number: key[1] for key, number in self._order.items()}
        own = (key[1] for key in self._order if key[0] == "torch.cuda.synchronize")
        lines[None] = next(own, NOWHERE)  # type: ignore[index]
        return [lines.get(each, NOWHERE) for each in numbers]  # type: ignore[arg-type]

    def _key(self, func: Any, args: Any, kwargs: Any) -> tuple[Key, bool]:
        """What operations are counted by; each has a number, which names its profiler range."""
        line, call, backward = self.flow.origins.current(sys._getframe(2))
        shapes = shapes_of(tensors_in(args))
        kind = backward, waits(func, args, kwargs), self._phase()
        key = (str(func), line, call, shapes, *kind)
        self._order.setdefault(key, len(self._order))
        return key, not backward and self.flow.dependence.times_zero(func, args)

    def _count(
        self, key: Key, seconds: float, func: Any, args: Any, kwargs: Any, result: Any
    ) -> None:
        total = self._add(key, seconds)
        total[2] += _bytes(func, args, result)
        total[3] += _flops(func, args, kwargs, result)

    def _add(self, key: Key, seconds: float) -> list[float]:
        total = self._found.setdefault(key, [0, 0.0, 0, 0])
        total[0] += 1
        total[1] += seconds
        self._seconds += seconds
        return total

    def _giving_way(self, original: Function) -> Function:
        """What the script does that must not find us there: then this step is not looked at."""

        def begins(_: Given) -> None:
            if internals.dispatch_mode() is self:  # not within an operation that we run
                self.stop()
                self.gave_way = True

        return with_callbacks(original, begins)

    def _stepping(self, original: Function) -> Function:
        """A gradient scaler's step, which is the optimizer's even where it is skipped."""
        return with_callbacks(
            original, lambda given: self.flow.steps(argument(given, 1, "optimizer"))
        )

    def _learning(self, original: Function) -> Function:
        """The backward function of torch, which tells of its begin and end."""

        def begins(given: Given) -> bool:
            self.flow.learn(argument(given, 0, "tensors"), user_line(sys._getframe()))
            return True

        return with_callbacks(
            original, begins, lambda *_: self.flow.learnt(), lambda _: self.flow.learnt()
        )

    def _reading(self, original: Function) -> Function:
        """A method of tensors that hands them to other software."""
        return with_callbacks(original, lambda given: self.flow.dependence.leaves(given[0][0]))

    def _timing(self, name: str, waiting: bool) -> Callable[[Function], Function]:
        """Turns a function that costs the host time into one that is counted as an operation."""

        def seen(line: Place, seconds: float, arguments: Any) -> None:
            self.flow.dependence.leaves(arguments)
            shapes = shapes_of(tensors_in(arguments))
            key = (name, line, self.flow.calls.current, shapes, False, waiting, self._phase())
            self._order.setdefault(key, len(self._order))
            self._add(key, seconds)

        return lambda original: timed(original, partial(attempt, seen), lambda: self._seconds)


def _bytes(func: Any, arguments: Any, result: Any) -> int:
    """Bytes of all tensors read and written, each once; a view moves none."""
    if any(
        each.alias_info and not each.alias_info.is_write for each in internals.schema(func).returns
    ):
        return 0
    return sum(each.numel() * each.element_size() for each in tensors_in((arguments, result)))


def _flops(func: Any, arguments: Any, options: Any, result: Any) -> int:
    """Floating-point operations of matrix products, convolutions and attention; 0 for the rest."""
    count = flop_registry.get(internals.overloads(func))
    return int(count(*arguments, **options, out_val=result)) if count else 0


def _summed(rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of equal name, line and kind as one, marked; their shapes where all have the same."""
    sums: dict[Key, tuple[set[str], list[Any]]] = {}
    for name, line, shape, *numbers, _, backward, waiting, phase, _, _ in rows:
        key = (name, line, backward, waiting, phase)
        shapes, total = sums.setdefault(key, (set(), [0, 0.0, None, 0, 0]))
        shapes.add(shape)
        for place, number in enumerate(numbers):
            if number is not None:
                total[place] = round((total[place] or 0) + number, 1)
    return [
        [name, line, shapes.pop() if len(shapes) == 1 else "", *total, -1, *kind, 0.0, True]
        for (name, line, *kind), (shapes, total) in sums.items()
    ]
