"""Meters: device time, loss and memory of each slice, without ever making Python wait.

On a GPU a value is not known when it is asked for. Timing events and copies of the loss into
pinned memory are queued behind the step's own work, and read when the device has passed them.
"""

import contextlib
from collections import deque
from math import isfinite
from typing import Any, NamedTuple

import torch

MEMORY_US = 250_000  # memory statistics take tens of microseconds: ask four times a second
PENDING = 512  # slices in flight; a script that never lets the device catch up loses the oldest
SLOTS = 8 * PENDING  # values in flight: loss, gradient norm and scale, some of them repeatedly
MOST_WAITS = 64  # of one slice that are timed; only a slice of validation has more


class _Pending(NamedTuple):
    """A slice that the device has not finished, and what is to be read then."""

    row: list[Any]
    values: list[Any]
    waits: list[Any]
    before: Any
    event: Any


class Meter:
    """Reads the device. Rows come back complete, in order, as soon as the device is done."""

    def __init__(self) -> None:
        self._on_gpu = False
        self._pending: deque[_Pending] = deque()
        self._last: Any = None
        self._memory_read = 0
        self._pinned: Any = None
        self._slot = 0
        self._waits: list[Any] = []  # begin, end, begin, end ... of the slice at hand

    def keep(self, value: Any) -> Any:
        """What is needed to read a number later: itself on the CPU, a pinned copy on a GPU."""
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            return None
        if value.is_meta or value.is_complex() or hasattr(value, "placements"):
            return None  # reading a distributed tensor would talk to the other ranks
        if not value.is_cuda:
            return float(value.item())
        if torch.cuda.is_current_stream_capturing():
            return None
        if self._pinned is None:
            self._pinned = torch.empty(SLOTS, pin_memory=True)
        self._slot = (self._slot + 1) % SLOTS
        pinned = self._pinned[self._slot]
        pinned.copy_(value.detach().reshape(()), non_blocking=True)
        return pinned

    def wait_begins(self) -> None:
        """The script waits for a batch from now on; the GPU may run dry meanwhile."""
        if self._on_gpu and len(self._waits) < 2 * MOST_WAITS:
            self._waits.append(_event())

    def wait_ends(self) -> None:
        """The batch is there."""
        if len(self._waits) % 2:
            self._waits.append(_event())

    def memory(self, now_us: int) -> tuple[int | None, int | None]:
        """Bytes allocated and reserved on the GPU; ``None`` between readings and without a GPU."""
        if now_us - self._memory_read < MEMORY_US:
            return None, None
        self._memory_read = now_us
        self._on_gpu = torch.cuda.is_initialized()
        if not self._on_gpu:
            return None, None
        return torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()

    def complete(self, row: list[Any], values: list[Any]) -> list[list[Any]]:
        """Take a row; return all rows, this one or older, that are complete now."""
        if not self._on_gpu:
            return [[*row, *_said(values), None, None]]
        if torch.cuda.is_current_stream_capturing():
            return [*self._drain(wait=False), row + [None] * (len(values) + 2)]
        event = _event()
        waits, self._waits = self._waits, []
        self._pending.append(_Pending(row, values, waits, self._last, event))
        self._last = event
        return self._drain(wait=False)

    def finish(self) -> list[list[Any]]:
        """The rows still in flight, with what is known of them; nothing is left on the GPU."""
        rows = self._drain(wait=True)
        self._last = self._pinned = None
        return rows

    def _drain(self, wait: bool) -> list[list[Any]]:
        rows = []
        while self._pending:
            first = self._pending[0]
            ready = first.event.query()
            if not ready and not wait and len(self._pending) < PENDING:
                break
            self._pending.popleft()
            rows.append(first.row + (_known(first) if ready else [None] * (len(first.values) + 2)))
        return rows


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _known(pending: _Pending) -> list[Any]:
    """The values, the time on the device since the slice before, and what of it was waiting."""
    device_us = _elapsed_us(pending.before, pending.event) if pending.before else None
    numbers = [None if each is None else float(each) for each in pending.values]
    return [*_said(numbers), device_us, _dry_us(pending.waits)]


def _dry_us(waits: list[Any]) -> int | None:
    """How long the GPU had nothing to do while the script waited for batches.

    An event that is recorded behind queued work happens when that work is done: as long as the
    GPU is busy both ends of a wait fall together, and only what it then waits lies between them.
    """
    if len(waits) == 2 * MOST_WAITS:
        return None
    spans = [_elapsed_us(begin, end) for begin, end in zip(waits[::2], waits[1::2], strict=False)]
    known = [each for each in spans if each is not None]
    return sum(known) if len(known) == len(spans) else None


def _elapsed_us(begin: Any, end: Any) -> int | None:
    with contextlib.suppress(RuntimeError):  # of two devices, or on a stream that lags behind
        return int(1e3 * begin.elapsed_time(end))
    return None


def _said(numbers: list[float | None]) -> list[float | str | None]:
    """Numbers as JSON can say them: what is not finite is said in words."""
    return [each if each is None or isfinite(each) else str(each) for each in numbers]
