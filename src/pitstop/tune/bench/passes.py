"""Passes: what goes with the second one of a twin: its seed, weights moved by a hair, its peak."""

import torch

from pitstop.tune.bench import distances
from pitstop.tune.bench.questions import Question
from pitstop.tune.bench.state import Living, seed_all

MOVES = 12_345  # the seed of the directions in which weights are moved


def seed(number: int | None) -> None:
    """Begin the random numbers of a pass anew, if they shall."""
    if number is not None:
        seed_all(number)


def move(living: Living, question: Question) -> dict[str, torch.Tensor]:
    """Move the weights by a hair, if the question is what that does; where they are then."""
    starts: dict[str, torch.Tensor] = {}
    if question.moved:
        for number, (name, each) in enumerate(living.parameters.items()):
            if each.is_floating_point():
                moved = distances.moved_by(
                    each.detach(), question.moved, question.units, MOVES + number
                )
                each.data.copy_(moved)
                starts[name] = each.detach().clone()
    return starts


class Peak:
    """The most memory that is in use on the GPU from now on."""

    def __init__(self) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()

    def bytes(self) -> int | None:
        """So much."""
        return torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
