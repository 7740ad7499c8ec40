"""Outside: data that no loader gives, such as slices of a tensor, is the same in both passes.

A script that keeps its data in memory chooses each batch in Python, which cannot be rewound. So the
first pass writes down what it takes from outside. In the second pass each place in the source
gets the same: the result of a call in which nothing takes part that this step has computed from
a parameter, and in all other calls the tensors from outside.

A gradient, a loss or what a model returns is never taken from the first pass.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pitstop import internals
from pitstop.profile.inspect.origins import in_backward
from pitstop.tune.bench.state import Living

Place = tuple[str, int, str, int]  # file, line, function, and how often that came before
MODEL = "model"  # a call of one, among those of torch's functions
WRITES = {"__setitem__", "__set__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"}
NUMBERS = (bool, int, float)
MOST_BYTES = 2**30  # that a step takes from outside; what takes more makes new data meanwhile
BETWEEN = {__file__, torch.overrides.__file__}  # lies between a line of the script and us


class Outside:
    """What two passes of a step take from elsewhere; the second is given what the first took."""

    def __init__(self) -> None:
        self._mode: Any = _Mode(self._called)
        self._on = self._again = self._inside = False
        self._taken: dict[Place, Any] = {}
        self._bytes = 0
        self._made: dict[int, ref[Tensor]] = {}  # from parameters, by id
        self._times: Counter[tuple[str, int, str]] = Counter()

    def begin(self, living: Living) -> None:
        """A first pass begins."""
        if not self._on:
            self._mode.__enter__()
        self._on, self._again = True, False
        self._taken.clear()
        self._bytes = 0
        self._know(living)

    def again(self, living: Living) -> None:
        """The second pass begins, if there was a first one."""
        self._again = self._on
        self._know(living)

    def end(self) -> None:
        """Calls are left alone from now on."""
        if self._on:
            self._mode.__exit__(None, None, None)
        self._on = False
        self._taken.clear()
        self._made.clear()

    @property
    def too_much(self) -> bool:
        """Whether the first pass took more than can be kept, and so is not like others."""
        return self._bytes > MOST_BYTES

    def given(self, value: Any) -> Any:
        """What a model is given, with what comes from outside as it was in the first pass."""
        if not self._on:
            return value
        with internals.without_function_modes():
            return self._substituted(self._place(MODEL), value)

    def inside(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A call of a model, in which nothing is looked at: it may be compiled."""
        if not self._on:
            return call

        def alone(*given: Any, **named: Any) -> Any:
            lifted = internals.function_mode_stack()[-1:] == [self._mode]
            self._inside = True
            if lifted:
                self._mode.__exit__(None, None, None)
            try:
                result = call(*given, **named)
            finally:
                self._inside = False
                if lifted:
                    self._mode.__enter__()
            self._make(result)
            return result

        return alone

    def _called(self, function: Callable[..., Any], given: Any, named: Any) -> Any:
        """A call of a function of torch's, on whatever line."""
        if self._inside or in_backward():
            return function(*given, **named)
        name = getattr(function, "__name__", "")
        place, tensors = self._place(name), list(_tensors((given, named)))
        if not any(map(self._is_made, tensors)):
            result = function(*given, **named)
            data = isinstance(result, Tensor) or (tensors and _is_data(result))
            return self._same(place, result) if data and not _writes(name, named) else result
        if _writes(name, named):
            self._make((given, named))
        else:
            given, named = self._substituted(place, (given, named))
        result = function(*given, **named)
        self._make(result)
        return result

    def _same(self, place: Place, value: Any) -> Any:
        """What the first pass had here."""
        if not self._again:
            self._bytes += sum(each.numel() * each.element_size() for each in _tensors(value))
            if not self.too_much:
                self._taken[place] = _copied(value)
            return value
        return _copied(self._taken.get(place, value))

    def _substituted(self, place: Place, value: Any) -> Any:
        number = 0

        def change(tensor: Tensor) -> Tensor:
            nonlocal number
            number += 1
            here = (*place[:2], f"{place[2]} {number}", place[3])
            same: Tensor = tensor if self._is_made(tensor) else self._same(here, tensor)
            return same

        return _mapped(value, change)

    def _know(self, living: Living) -> None:
        """What is there when a pass begins and is no data."""
        known = [*living.parameters.values(), *(each for *_, each in living.buffers())]
        known += [each for _, each in living.averages()]
        self._made.clear()
        self._make(known)
        self._times.clear()

    def _make(self, value: Any) -> None:
        self._made |= {id(each): ref(each) for each in _tensors(value)}

    def _is_made(self, tensor: Tensor) -> bool:
        return tensor.requires_grad or self._made.get(id(tensor), lambda: None)() is tensor

    def _place(self, name: str) -> Place:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in BETWEEN:
            frame = frame.f_back
        line = (frame.f_code.co_filename, frame.f_lineno, name) if frame else ("", 0, name)
        self._times[line] += 1
        return (*line, self._times[line])


class _Mode(TorchFunctionMode):
    """Tells of each call of torch's; while it does, it does not see those inside."""

    def __init__(self, called: Callable[..., Any]) -> None:
        super().__init__()
        self._called = called

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._called(func, args, kwargs or {})


def _writes(name: str, named: Any) -> bool:
    """Whether a call writes into what it is given."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in WRITES or "out" in named


def _is_data(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_data, value))
    return isinstance(value, (Tensor, *NUMBERS))


def _copied(value: Any) -> Any:
    return _mapped(value, lambda tensor: tensor.detach().clone())


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if type(value) is dict:
        return {key: _mapped(each, change) for key, each in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(_mapped(each, change) for each in value)
    return value
