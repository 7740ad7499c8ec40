"""Aliases: weights under other names, so that a captured backward pass stays on its own stream.

Autograd gathers the gradient of a weight on the stream of the first pass that it still remembers. A
script that holds a loss makes it remember that step. A capture whose gradients go to another stream
fails. So while a model is captured it works on views of its weights, which are made
within the capture, and the gradients end there.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pitstop import internals
from pitstop.parts.graphs.reasons import Declined, Reason


@contextmanager
def aliased(model: nn.Module, weights: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Views in place of these weights, in their order."""
    views = {id(each): each.view_as(each) for each in weights}
    places = [
        (own, name, each)
        for own in map(internals.own_parameters, model.modules())
        for name, each in own.items()
        if id(each) in views
    ]
    for own, name, each in places:
        own[name] = views[id(each)]
    try:
        yield list(views.values())
    finally:
        for own, name, each in places:
            own[name] = each


def check_no_other_way(
    results: Sequence[torch.Tensor], views: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
) -> None:
    """Raise where a result depends on a weight by another way than its view."""
    ends = {each.grad_fn for each in views}
    known = {id(each) for each in weights}
    waiting: list[Any] = [each.grad_fn for each in results]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if id(getattr(node, "variable", None)) in known:
            raise Declined(Reason.ELSEWHERE)
        following = (each for each, _ in node.next_functions if each is not None)
        for each in following if node not in ends else ():
            if each not in seen:
                seen.add(each)
                waiting.append(each)
