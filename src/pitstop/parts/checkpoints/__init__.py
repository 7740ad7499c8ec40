"""Checkpoints for some blocks of a model: those that are cheapest to compute twice.

``measure`` tells what a block keeps for its backward pass and how long it takes; ``choose`` picks
which of them keep it; ``selective`` does so, for a model or for calls of torch's own checkpoint.
"""

from pitstop.parts.checkpoints.choose import Block, Room
from pitstop.parts.checkpoints.selective import (
    Checkpoints,
    selective_checkpoints,
    worth_checkpointing,
)

__all__ = ["Block", "Checkpoints", "Room", "selective_checkpoints", "worth_checkpointing"]
