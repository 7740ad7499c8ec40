"""Meters: device time, loss and memory of each slice, without ever making Python wait.

On a GPU a value is not known when it is asked for. Timing events and copies of the loss into
pinned memory are queued behind the step's own work, and read when the device has passed them.
"""

import math
from collections import deque
from time import perf_counter
from typing import Any

import torch

MEMORY_SECONDS = 0.25  # memory statistics take tens of microseconds: ask four times a second
PENDING = 512  # slices in flight; a script that never lets the device catch up loses the oldest


class Meter:
    """Reads the device. Rows come back complete, in order, as soon as the device is done."""

    def __init__(self) -> None:
        self._pending: deque[tuple[list[Any], Any, Any, Any]] = deque()
        self._last: Any = None
        self._memory_read = 0.0
        self._losses: Any = None
        self._slot = 0

    def keep(self, loss: Any) -> Any:
        """What is needed to read the loss later: its value on the CPU, a pinned copy on a GPU."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_meta:
            return None
        if not loss.is_cuda:
            return float(loss.detach())
        if torch.cuda.is_current_stream_capturing():
            return None
        if self._losses is None:
            self._losses = torch.empty(PENDING, pin_memory=True)
        self._slot = (self._slot + 1) % PENDING
        pinned = self._losses[self._slot]
        pinned.copy_(loss.detach().reshape(()), non_blocking=True)
        return pinned

    def memory(self) -> tuple[int | None, int | None]:
        """Bytes allocated and reserved on the GPU; ``None`` between readings and without a GPU."""
        now = perf_counter()
        if now - self._memory_read < MEMORY_SECONDS or not torch.cuda.is_initialized():
            return None, None
        self._memory_read = now
        return torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()

    def complete(self, row: list[Any], loss: Any) -> list[list[Any]]:
        """Take a row; return all rows, this one or older, that are complete now."""
        if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
            return [*self._drain(wait=False), _with(row, loss, None)]
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._pending.append((row, loss, self._last, event))
        self._last = event
        return self._drain(wait=False)

    def finish(self) -> list[list[Any]]:
        """The rows still in flight, with what is known of them."""
        return self._drain(wait=True)

    def _drain(self, wait: bool) -> list[list[Any]]:
        rows = []
        while self._pending:
            row, loss, before, event = self._pending[0]
            ready = event.query()
            if not ready and not wait and len(self._pending) < PENDING:
                break
            self._pending.popleft()
            if ready:
                milliseconds = before.elapsed_time(event) if before else None
                rows.append(_with(row, loss, milliseconds))
            else:
                rows.append(_with(row, None, None))
        return rows


def _with(row: list[Any], loss: Any, device_ms: float | None) -> list[Any]:
    """The row with its last two columns filled in; what JSON cannot say is said in words."""
    value = None if loss is None else float(loss)
    finite = value is None or math.isfinite(value)
    return [*row, value if finite else str(value), device_ms]
