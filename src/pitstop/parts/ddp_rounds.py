"""Rounds of DistributedDataParallel: gradients that add up are sent around once, in the last pass.

Where gradients of several batches add up for one step of the optimizer, each backward pass averages
them over all ranks, and only the last average counts. ``no_sync`` spares the others, but somebody
has to know which pass is the last. Here the first steps tell how many forward passes there are to a
step, and whoever asks for gradients before the last of them (a short round at an epoch's end) waits
until they are averaged by hand. The sum of averages is the average of sums, but for rounding.
"""

from typing import Any

import torch
from torch import distributed, nn

LEARNED_FROM = 2  # steps that agree on how many passes there are to one


class Rounds:
    """The forward passes of one model between steps of its optimizer."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.spared = 0  # backward passes that sent nothing
        self.length = 0  # of a round, in forward passes; 0: not known yet
        self._parameters = {id(each) for each in model.parameters()}
        self._lengths: list[int] = []
        self._passes = 0
        self._sends = True
        self._local = False  # whether gradients are this rank's own

    @property
    def left_alone(self) -> bool:
        """Whether nobody else says which passes send: a script may have ``no_sync`` itself."""
        return bool(self.model.require_backward_grad_sync) == self._sends

    def forward_begins(self) -> None:
        """With gradients: the backward pass that belongs to it sends them, or does not."""
        self._passes += 1
        self._sends = not self.length or self._passes % self.length == 0
        self.model.require_backward_grad_sync = self._sends
        self._local = not self._sends
        self.spared += not self._sends

    def asked_for(self) -> None:
        """Somebody reads gradients: they must be everybody's by now."""
        if self._local:
            self._local = False
            average(self.model)

    def step_begins(self, optimizer: Any) -> None:
        """Of any optimizer; one without parameters of this model does not count."""
        groups = optimizer.param_groups
        own = any(id(each) in self._parameters for group in groups for each in group["params"])
        if not own or not self._passes:
            return
        self.asked_for()
        if len(self._lengths) < LEARNED_FROM:
            self._lengths.append(self._passes)
            if len(self._lengths) == LEARNED_FROM:
                self.length = max(1, *self._lengths) if len({*self._lengths}) == 1 else 1
        self._passes = 0

    def close(self) -> None:
        """Every pass sends gradients again; those that were kept back are averaged."""
        self.asked_for()
        if self.left_alone:
            self.model.require_backward_grad_sync = True


def average(model: Any) -> None:
    """Average the gradients of a model over all ranks; a rank without one counts as zero."""
    group = model.process_group
    parameters = [each for each in model.parameters() if each.requires_grad]
    if not parameters:
        return
    there = torch.tensor([each.grad is not None for each in parameters], dtype=torch.uint8).to(
        parameters[0].device
    )
    distributed.all_reduce(there, distributed.ReduceOp.MAX, group)
    ranks = distributed.get_world_size(group)
    for parameter, some in zip(parameters, there.tolist(), strict=True):
        if some:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.div_(ranks)
            distributed.all_reduce(parameter.grad, group=group)


def buffers_of(model: nn.Module) -> list[tuple[nn.Module, str, torch.Tensor]]:
    """Each with the module that has it, and its name there."""
    return [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
