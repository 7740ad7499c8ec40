"""Meters: device time, loss and memory of each slice, without ever making Python wait.

On a GPU a value is not known when it is asked for. Timing events and copies of the loss into
pinned memory are queued behind the step's own work, and read when the device has passed them.
"""

import contextlib
import time
from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pitstop import internals

MEMORY_US = 250_000  # memory statistics take tens of microseconds: ask four times a second
PENDING = 512  # slices in flight; a script that never lets the device catch up loses the oldest
SLOTS = 8 * PENDING  # values in flight: losses, gradient norm and scale, some of them repeatedly
NOT_READ = (None, None)  # two columns
UNKNOWN: tuple[Any, ...] = (
    [],
    None,
    None,
    None,
    None,
)  # losses, gradient norm, scale, device time, dry time
PATIENCE_SECONDS = 2.0  # at the end, with a device that still works off its queue, or hangs
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
        self.on_gpu = False
        self._pending: deque[_Pending] = deque()
        self._last: Any = None
        self._memory_read = 0
        self._pinned: Any = None
        self._slot = 0
        self._waits: list[Any] = []  # begin, end, begin, end ... of the slice at hand

    def keep(self, value: Any) -> Any:
        """What is needed to read a number later: itself on the CPU, a pinned copy on a GPU."""
        if type(value) is not Tensor:
            return None  # to read a distributed tensor talks to other ranks; a fake one has none
        if not (internals.function_modes() or internals.dispatch_modes()):
            return self._kept(value)
        with internals.without_function_modes(), internals.without_dispatch_modes():
            return self._kept(value)  # unseen by the script's modes, and by our own

    def _kept(self, value: Tensor) -> Any:
        if not value.is_cuda:
            try:
                return float(value.item())
            except (RuntimeError, TypeError, ValueError):  # not one number, or none at all
                return None
        if value.numel() != 1 or value.is_complex() or torch.cuda.is_current_stream_capturing():
            return None
        self.on_gpu = True  # known before memory is read for the first time
        if self._pinned is None:
            self._pinned = torch.empty(SLOTS, pin_memory=True)
        self._slot = (self._slot + 1) % SLOTS
        pinned = self._pinned[self._slot]
        pinned.copy_(value.detach().reshape(()), non_blocking=True)
        return pinned

    def wait_begins(self) -> None:
        """The script waits for a batch from now on; the GPU may run dry meanwhile."""
        if len(self._waits) < 2 * MOST_WAITS:
            self._waits.append(_event())

    def wait_ends(self) -> None:
        """The batch is there."""
        if len(self._waits) % 2:
            self._waits.append(_event())

    def complete(self, row: list[Any], values: list[Any], known: bool = False) -> list[list[Any]]:
        """Take a row; return all rows, this one or older, that are complete now.

        One of which all is ``known`` already is complete as it is.
        """
        if known:
            return [[*row, *NOT_READ, *map(_number, values), *NOT_READ]]
        if row[0] - self._memory_read > MEMORY_US:
            self._memory_read = row[0]
            self.on_gpu = torch.cuda.is_initialized()
            row += self._memory()
        else:
            row += NOT_READ
        if not self.on_gpu:
            row += map(_number, values)
            row += NOT_READ
            return [row]
        if torch.cuda.is_current_stream_capturing():
            return [*self._drain(wait=False), [*row, *UNKNOWN]]
        event = _event()
        waits, self._waits = self._waits, []
        self._pending.append(_Pending(row, values, waits, self._last, event))
        self._last = event
        return self._drain(wait=False)

    def _memory(self) -> tuple[int | None, int | None]:
        """Bytes allocated and reserved on the GPU."""
        if not self.on_gpu:
            return NOT_READ
        return torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()

    def skip(self) -> None:
        """What has passed is our own work: the time of the next slice begins now."""
        if self._last is not None and not torch.cuda.is_current_stream_capturing():
            self._last = _event()

    def read_memory(self) -> None:
        """Let the next row have the memory, however soon it comes."""
        self._memory_read = -2 * MEMORY_US

    def finish(self) -> list[list[Any]]:
        """The rows still in flight, with what is known of them; nothing is left on the GPU."""
        given_up = time.monotonic() + PATIENCE_SECONDS
        while self._pending and not self._pending[-1].event.query():
            if time.monotonic() > given_up:
                break
            time.sleep(0.001)
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
            rows.append([*first.row, *(_known(first) if ready else UNKNOWN)])
        return rows


def _event() -> Any:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _known(pending: _Pending) -> list[Any]:
    """The values, the time on the device since the slice before, and what of it was waiting."""
    device_us = _elapsed_us(pending.before, pending.event) if pending.before else None
    return [*map(_number, pending.values), device_us, _dry_us(pending.waits)]


def _number(value: Any) -> Any:
    """What was kept, now that it can be read: a number, or several."""
    if type(value) is list:
        return [float(each) for each in value if each is not None]
    return None if value is None else float(value)


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
