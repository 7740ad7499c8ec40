"""Watch: look on while a call runs as it is, for what a replay would leave out.

Prints, random numbers of the CPU, waits for the GPU and changes of the model's own attributes would
happen once, when the graph is captured, and never again. Which of the results lead to a backward
pass shows on the way back.
"""

import io
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

import torch

from pitstop import internals
from pitstop.parts.graphs.device import Device
from pitstop.parts.graphs.reasons import Declined, Reason
from pitstop.parts.graphs.weights import State


class Watch:
    """What was seen of the calls of one kind."""

    def __init__(self) -> None:
        self.wanted: set[int] = set()  # results that could lead to a backward pass
        self.reached: set[int] = set()  # those that did, in the last one
        self.twice = False

    def call(self, device: Device, state: State, run: Callable[[], Any]) -> Any:
        """Run as it is; raise ``Declined`` with the result where a replay would differ."""
        with device.waits() as waited, _printed() as printed:
            drawn = _random_state()
            result = run()
            draws = _random_state() != drawn
        self._look_back(result)
        found = {
            Reason.WAITS: ", ".join(dict.fromkeys(waited)) if waited else None,
            Reason.PRINTS: "" if printed else None,
            Reason.DRAWS: "" if draws else None,
            Reason.CHANGES_ITSELF: None if state.holds() else "",
        }
        for reason, detail in found.items():
            if detail is not None:
                raise Seen(result, Declined(reason, detail))
        return result

    def _look_back(self, result: Any) -> None:
        self.reached = set()
        tensors = [each for each in internals.tree_leaves(result) if isinstance(each, torch.Tensor)]
        learning = [each for each in dict.fromkeys(tensors) if each.requires_grad]
        self.wanted = set(range(len(learning)))
        for place, each in enumerate(learning):
            each.register_hook(partial(self._reached, place))

    def _reached(self, place: int, grad: torch.Tensor) -> None:
        self.reached.add(place)
        self.twice |= torch.is_grad_enabled() or torch.is_autocast_enabled(grad.device.type)

    @property
    def all_reached(self) -> bool:
        """Whether a backward pass has come, from all results."""
        return self.wanted == self.reached


class Seen(Exception):  # noqa: N818 (no error: the call has been done)
    """A call has run, and was seen to do what a replay would leave out."""

    def __init__(self, result: Any, declined: Declined) -> None:
        super().__init__(declined)
        self.result, self.declined = result, declined


class _Tee(io.TextIOBase):
    """Writes on, and remembers that it did."""

    def __init__(self, target: Any, seen: list[bool]) -> None:
        self._target, self._seen = target, seen

    def write(self, text: str) -> int:
        self._seen.append(True)
        return int(self._target.write(text))

    def flush(self) -> None:
        self._target.flush()

    def isatty(self) -> bool:
        return bool(self._target.isatty())


@contextmanager
def _printed() -> Iterator[list[bool]]:
    seen: list[bool] = []
    with redirect_stdout(_Tee(sys.stdout, seen)):
        yield seen


def _random_state() -> tuple[Any, ...]:
    """Of the generators of the CPU that a model may draw from."""
    numpy = sys.modules.get("numpy")
    theirs = () if numpy is None else numpy.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), pickle.dumps(theirs)
