"""Exchange: how long the script waits for other ranks, in collectives and in backward passes."""

from time import thread_time_ns
from typing import Any

import torch

from pitstop.profile.read.clock import now_us


class Exchange:
    """What the current slice has spent on other ranks, in microseconds."""

    def __init__(self) -> None:
        self.spent_us = 0
        self._since_us = 0  # when the collective that runs now was called
        self.peers: bool | None = None  # whether there are other ranks; known with the first loss
        self._own: tuple[int, int] | None = None  # clocks at the begin of a backward pass

    def begin(self) -> bool:
        """A collective is called; false where another collective does that."""
        if self._since_us:
            return False
        self._since_us = now_us()
        return True

    def end(self) -> None:
        """The collective has come back."""
        self.spent_us += now_us() - self._since_us
        self._since_us = 0

    def backward_begins(self, root: Any) -> None:
        """A backward pass begins, on a CPU or a GPU as its root is.

        On a CPU the gradients are exchanged within it, out of sight: where there are other ranks,
        the time in which this thread did not run is the time it waited for them.
        """
        if self.peers is None:
            self.peers = _has_peers()
        if self.peers and root is not None and not root.is_cuda:
            self._own = thread_time_ns(), self.spent_us

    def backward_ends(self, wall_us: int) -> None:
        """The backward pass is over."""
        if self._own:
            (begun_ns, spent_us), self._own = self._own, None
            waited_us = wall_us - (thread_time_ns() - begun_ns) // 1000
            self.spent_us = max(self.spent_us, spent_us + waited_us)


def _has_peers() -> bool:
    """Whether this process is one rank of several."""
    ranks = torch.distributed
    return ranks.is_available() and ranks.is_initialized() and ranks.get_world_size() > 1
