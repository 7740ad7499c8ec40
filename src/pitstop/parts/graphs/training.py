"""Training: a graph of the forward pass and one of its backward pass, as autograd sees them.

The backward graph reads what the forward graph left in the shared memory. So between a call and its
backward pass nothing else may be replayed: a call that comes in between runs as it is.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from pitstop import internals
from pitstop.parts.graphs.aliases import aliased, check_no_other_way
from pitstop.parts.graphs.arguments import Given, Place, fill
from pitstop.parts.graphs.device import Device
from pitstop.parts.graphs.inference import Call, Results, captured
from pitstop.parts.graphs.reasons import Declined, Reason


class Memory:
    """Whose intermediate results the shared memory holds."""

    def __init__(self) -> None:
        self._last: ref[Ticket] | None = None

    def begin(self) -> "Ticket":
        """A forward pass is replayed now, whose backward pass will come."""
        ticket = Ticket()
        self._last = ref(ticket)
        return ticket

    def overwritten(self) -> None:
        """Something else is replayed now."""
        self._last = None

    @property
    def owner(self) -> "Ticket | None":
        """The last replayed call, while autograd could ask for its gradients."""
        return self._last() if self._last else None

    @property
    def is_awaited(self) -> bool:
        """Whether a backward pass may still read it: it has not run, and could."""
        return self.owner is not None and not self.owner.done


class Ticket:
    """One replayed call, alive as long as autograd could ask for its gradients."""

    def __init__(self) -> None:
        self.done = False


class Training:
    """A forward and a backward pass that can be replayed."""

    def __init__(
        self,
        device: Device,
        model: nn.Module,
        call: Call,
        given: Given,
        weights: Sequence[torch.Tensor],
        memory: Memory,
    ) -> None:
        self.memory = memory
        self.places = [Place(each) for each in given.tensors]
        inputs = [each.tensor for each in self.places]
        self.learning = [each for each in weights if each.requires_grad]
        views: list[torch.Tensor] = []

        def on_views(*arguments: Any, **options: Any) -> Any:
            with aliased(model, self.learning) as made:
                views.extend(made)
                return call(*arguments, **options)

        result, self.replay_forward = captured(device, on_views, given, inputs)
        self.results = Results(result, [*weights, *inputs])
        learned = [each for each in self.results.tensors if each.requires_grad]
        check_no_other_way(learned, views, self.learning)
        self.grads_in = [torch.zeros_like(each) for each in learned]
        targets = [*(each for each in inputs if each.requires_grad), *views]
        with torch.autocast(weights[0].device.type, enabled=False):
            self.replay_backward, self.grads_out = device.capture(
                lambda: torch.autograd.grad(learned, targets, self.grads_in, allow_unused=True)
            )
        self.constant = [not each.requires_grad for each in self.results.tensors]
        self.returned = [each.detach() for each in self.results.tensors]  # frees what was saved

    def __call__(self, given: Given) -> Any:
        """What the model returns for this call, with a way back."""
        tensors = given.tensors
        targets = [*(each for each in tensors if each.requires_grad), *self.learning]
        detached = [each.detach() for each in tensors]
        outputs: Any = _Replayed.apply(self, detached, *targets)  # type: ignore[no-untyped-call]
        return self.results.holding(outputs)


class _Replayed(torch.autograd.Function):
    """Both graphs as one operation; gradients arrive at weights and inputs as ever."""

    @staticmethod
    def forward(
        ctx: Any, training: Training, tensors: list[torch.Tensor], *_targets: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        fill(training.places, tensors)
        ctx.training, ctx.ticket = training, training.memory.begin()
        training.replay_forward()
        outputs = tuple([each.clone() for each in training.returned])
        fixed = [each for each, no in zip(outputs, training.constant, strict=True) if no]
        ctx.mark_non_differentiable(*fixed)
        ctx.constant = training.constant
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        training, ticket = ctx.training, ctx.ticket
        if training.memory.owner is not ticket:
            raise RuntimeError(
                "pitstop.parts.graphed: another call came between two backward passes of this one:"
                " call the handle that graphed() returned, to undo it"
            )
        wanted = [each for each, no in zip(grads, ctx.constant, strict=True) if not no]
        for place, grad in zip(training.grads_in, wanted, strict=True):
            place.copy_(grad)
        training.replay_backward()
        ticket.done = not internals.keeps_graph()
        return None, None, *_copies(training.grads_out)


def _copies(grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """New tensors, in few launches: the next replay writes over what it is given."""
    there = [each for each in grads if each is not None]
    copies = iter(internals.foreach_multiply(there, 1) if there else ())
    return [None if each is None else next(copies) for each in grads]


def check_way_back(all_reached: bool, twice: bool) -> None:
    """Raise where the backward passes that were seen are not what a graph would do."""
    if twice:
        raise Declined(Reason.TWICE)
    if not all_reached:
        raise Declined(Reason.NO_BACKWARD)
