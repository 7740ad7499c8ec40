"""Inference: one graph of a forward pass, and what its replay returns.

What a graph returns lies in memory that the next replay writes to. So every call gets copies, which
are the caller's to keep and to change.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pitstop import internals
from pitstop.parts.graphs.arguments import PLAIN, TENSORS, Given, Place, fill
from pitstop.parts.graphs.device import Device
from pitstop.parts.graphs.reasons import Declined, Reason

Call = Callable[..., Any]


class Results:
    """What a captured call returned: tensors of the graph's, and plain values."""

    def __init__(self, result: Any, given: Sequence[torch.Tensor]) -> None:
        self.leaves, self.spec = internals.tree_flatten(result)
        for each in self.leaves:
            if type(each) not in (*TENSORS, *PLAIN):
                raise Declined(Reason.RETURNS, type(each).__name__)
        tensors = [each for each in self.leaves if isinstance(each, torch.Tensor)]
        self.tensors = list(dict.fromkeys(tensors))  # one may be returned twice
        self._check(given)

    def _check(self, given: Sequence[torch.Tensor]) -> None:
        """Raise where a result shares memory with another, or with what was there before."""
        taken = {_memory(each) for each in given}
        for each in self.tensors:
            if each.device != given[0].device or each.layout != torch.strided:
                raise Declined(Reason.RETURNS, f"a tensor on {each.device}, {each.layout}")
            if _memory(each) in taken and each.numel():
                raise Declined(Reason.RETURNS, "a view of what it was given, or of another result")
            taken.add(_memory(each))

    def holding(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The same structure with these tensors."""
        new = dict(zip(self.tensors, tensors, strict=True))
        leaves = [new[x] if isinstance(x, torch.Tensor) else x for x in self.leaves]
        return internals.tree_unflatten(leaves, self.spec)


class Inference:
    """A forward pass that can be replayed."""

    def __init__(
        self, device: Device, call: Call, given: Given, weights: Sequence[torch.Tensor]
    ) -> None:
        self.places = [Place(each) for each in given.tensors]
        inputs = [each.tensor for each in self.places]
        result, self._replay = captured(device, call, given, inputs)
        self.results = Results(result, [*weights, *inputs])

    def __call__(self, given: Given) -> Any:
        """What the model returns for this call."""
        fill(self.places, given.tensors)
        self._replay()
        return self.results.holding([each.clone() for each in self.results.tensors])


def captured(
    device: Device, call: Call, given: Given, inputs: Sequence[torch.Tensor]
) -> tuple[Any, Callable[[], None]]:
    """Capture a call on these inputs; raise where it changes what it is given."""
    arguments, options = given.with_tensors(inputs)
    versions = [internals.version(each) for each in inputs]
    with _no_autocast_cache():
        replay, result = device.capture(lambda: call(*arguments, **options))
    if [internals.version(each) for each in inputs] != versions:
        raise Declined(Reason.CHANGES_INPUTS, "in place")
    if not _holds(internals.tree_flatten((arguments, options)), given.with_tensors(inputs)):
        raise Declined(Reason.CHANGES_INPUTS, "a list or a dictionary")
    return result, replay


def _holds(found: tuple[list[Any], internals.TreeSpec], before: Any) -> bool:
    """Whether containers still hold what they were made with."""
    leaves, spec = internals.tree_flatten(before)
    same = len(leaves) == len(found[0]) and spec == found[1]
    return same and all(one is other for one, other in zip(leaves, found[0], strict=True))


@contextmanager
def _no_autocast_cache() -> Iterator[None]:
    """Weights are cast anew in each replay: what others cast may be gone by then."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
