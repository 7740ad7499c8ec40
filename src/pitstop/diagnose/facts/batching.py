"""Batching: what a call costs whatever its batch, which calls on one stacked batch pay once.

On a CPU that is to start each operation, and to read its weights. On a GPU a small call leaves
much of the device idle, and a batch of two may take as long as a batch of one.
"""

from math import prod

from pitstop.core.evidence import Operation
from pitstop.diagnose.facts.operations import short, tensors

START_MS = 0.01  # of one operation of torch, forward or backward, on a CPU
WEIGHTS = {"convolution": 1, "convolution_backward": 2, "addmm": 2, "mm": 1, "linear": 1}  # where


def paid_once_ms(operation: Operation, above_ms: float, on_gpu: bool) -> float:
    """The part of what an operation takes above its floor that a stacked batch pays once."""
    if on_gpu:
        return above_ms
    return min(above_ms, START_MS * operation.calls + above_ms * _share_of_weights(operation))


def _share_of_weights(operation: Operation) -> float:
    """The numbers in its weights, of all that it is given."""
    sizes = [prod(each.sizes) for each in tensors(operation)]
    place, whole = WEIGHTS.get(short(operation), len(sizes)), sum(sizes)
    return sizes[place] / whole if place < len(sizes) and whole else 0.0
