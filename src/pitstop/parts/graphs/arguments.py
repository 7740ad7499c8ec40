"""Arguments: what a call is given, the kind of call that makes it, and a place of its own for it.

A graph reads its inputs where they lay when it was captured. So each graph has tensors of its own,
laid out as the caller's, into which every call is copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pitstop import internals
from pitstop.parts.graphs.reasons import Declined, Reason

PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
TENSORS = (torch.Tensor, torch.nn.Parameter)  # no subclasses: those may do anything


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The leaves of all arguments, and the kind of call that they make."""

    leaves: list[Any]
    spec: internals.TreeSpec
    key: tuple[Any, ...]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among them, in order."""
        return [each for each in self.leaves if isinstance(each, torch.Tensor)]

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """Positional and named arguments that hold these in place of the tensors given."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        arguments: tuple[Any, ...] = internals.tree_unflatten(leaves, self.spec)
        return arguments


def read(arguments: tuple[Any, ...], options: dict[str, Any], device: torch.device) -> Given:
    """Take arguments apart; raise ``Declined`` where one is no input of a graph."""
    leaves, spec = internals.tree_flatten((arguments, options))
    return Given(leaves, spec, (spec, *[_kind(each, device) for each in leaves]))


def _kind(leaf: Any, device: torch.device) -> tuple[Any, ...]:
    if type(leaf) in TENSORS:
        if leaf.device != device or leaf.layout != torch.strided:
            raise Declined(Reason.ARGUMENT, f"a tensor on {leaf.device}, {leaf.layout}")
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.requires_grad
    if type(leaf) not in PLAIN:
        raise Declined(Reason.ARGUMENT, type(leaf).__name__)
    return type(leaf), leaf


class Place:
    """A tensor of a graph's own, laid out as the caller's, even if that is expanded."""

    def __init__(self, like: torch.Tensor) -> None:
        steps = like.stride()
        self._once = tuple([slice(1) if step == 0 else slice(None) for step in steps])
        sizes = [1 if step == 0 else size for size, step in zip(like.shape, steps, strict=True)]
        with torch.inference_mode(False), torch.no_grad():  # changes in place must be counted
            self._own = torch.empty_strided(sizes, steps, dtype=like.dtype, device=like.device)
            self.tensor = self._own.expand(like.shape).requires_grad_(like.requires_grad)
            self.fill(like.detach())

    def fill(self, tensor: torch.Tensor) -> None:
        """Copy what a call is given to where the graph reads it."""
        self._own.copy_(tensor[self._once] if 0 in tensor.stride() else tensor)


@torch.no_grad()
def fill(places: Sequence[Place], tensors: Sequence[torch.Tensor]) -> None:
    """All of them."""
    for place, tensor in zip(places, tensors, strict=True):
        place.fill(tensor)
