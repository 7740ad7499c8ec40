"""Cores: how long the recorded thread was ready to run and had no core, as Linux counts it.

On a machine that others use a step takes longer for no reason of its own: it waits for its turn.
Elsewhere than on Linux nobody knows, and nothing is said.
"""

import os
from contextlib import suppress

COUNTED = "/proc/thread-self/schedstat"  # nanoseconds on a core, and waiting for one
LONGEST = 64  # bytes of it


class Cores:
    """What one thread has waited for cores since it was asked last."""

    def __init__(self, path: str = COUNTED) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open(path, os.O_RDONLY)
        self._last_ns = self._read()

    def waited_us(self) -> int | None:
        """Microseconds since the last time; nothing where nobody counts them."""
        before, self._last_ns = self._last_ns, self._read()
        if before is None or self._last_ns is None:
            return None
        return max(0, self._last_ns - before) // 1000

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            with suppress(OSError):  # a daemon has closed all that it knows nothing of
                os.close(self._file)
            self._file = None

    def _read(self) -> int | None:
        if self._file is None:
            return None
        try:
            return int(os.pread(self._file, LONGEST, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return None
