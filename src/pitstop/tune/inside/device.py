"""Device: whether this process is alone, and has done all its work."""

import os

import torch
from torch import distributed


def is_alone() -> bool:
    """Whether no other process waits for this one: each would look at times of its own."""
    joined = distributed.is_available() and distributed.is_initialized()
    launched = os.environ.get("WORLD_SIZE", "") not in {"", "1"}
    return not launched and not (joined and distributed.get_world_size() > 1)


def empty_queue() -> None:
    """Wait until the GPU has done all that it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
