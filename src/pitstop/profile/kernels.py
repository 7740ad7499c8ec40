"""Kernel times: what torch's own profiler saw in an inspected step."""

import gzip
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import _profiler_enabled
from torch.autograd.profiler import profile

from pitstop.profile.gaps import WAITS, is_transfer
from pitstop.profile.watch import RANGE

LAYOUT = ("nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw")  # parts of kernels' names
LARGEST_TRACE_BYTES = 100 * 2**20  # Perfetto opens no more in a browser


class KernelTimes:
    """Records one step's kernels and ties them to the operations that launched them."""

    def __init__(self, trace: Path | None) -> None:
        device = "cuda" if torch.cuda.is_initialized() else None
        # What torch.profiler is built on: it has no schedule, warns of none, and is freed at once.
        self._profile = profile(use_kineto=True, use_device=device)
        self._trace = trace
        self._runs = False
        self.layout: dict[int, float] = defaultdict(float)  # of the µs by operation
        self.waits: list[int | None] = []  # operation numbers of the synchronisations, in order

    def start(self) -> None:
        """Begin, unless a profiler of the script's own runs: there can be only one.

        The device is idle first, so that the step's kernels are the step's own.
        """
        self._runs = not _profiler_enabled()
        if self._runs:
            _synchronise()
            self._profile.__enter__()

    def stop(self) -> tuple[dict[int, float], list[list[Any]]]:
        """Device µs by operation number, and all kernels by name with calls and µs."""
        if not self._runs:
            return {}, []
        _synchronise()
        self._profile.__exit__(None, None, None)
        events = list(self._profile.function_events or ())
        by_operation: dict[int, float] = defaultdict(float)
        by_name: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        for event in events:
            for kernel in event.kernels:
                if kernel.name.startswith(RANGE) or is_transfer(kernel.name):
                    continue  # the device's shadow of a range, or time in which it is idle
                by_name[kernel.name][0] += 1
                by_name[kernel.name][1] += kernel.duration
                number = _operation_of(event)
                if number is not None:
                    by_operation[number] += kernel.duration
                    if any(part in kernel.name.lower() for part in LAYOUT):
                        self.layout[number] += kernel.duration
        self.waits = _waits(events)
        self._keep_trace()
        rows = [[name, int(calls), round(micros, 1)] for name, (calls, micros) in by_name.items()]
        return dict(by_operation), sorted(rows, key=lambda row: -row[2])

    def _keep_trace(self) -> None:
        """Write the gzipped trace, unless it would be too large to open."""
        if self._trace:
            plain = self._trace.with_suffix("")
            self._profile.export_chrome_trace(str(plain))
            with plain.open("rb") as source, gzip.open(self._trace, "wb") as packed:
                shutil.copyfileobj(source, packed)
            plain.unlink()
            if self._trace.stat().st_size > LARGEST_TRACE_BYTES:
                self._trace.unlink()


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _waits(events: list[Any]) -> list[int | None]:
    """The operations that made Python wait for the device; none where the script itself did."""
    found = [event for event in events if event.name.startswith(WAITS)]
    waits = [_operation_of(event) for event in sorted(found, key=lambda e: e.time_range.start)]
    while waits and waits[-1] is None:
        waits.pop()  # the last ones are our own and the profiler's
    return waits


def _operation_of(event: Any) -> int | None:
    """The number in the nearest range of ours around an event."""
    while event is not None:
        if event.name.startswith(RANGE):
            number = event.name.removeprefix(RANGE)
            return int(number) if number.isdigit() else None
        event = event.cpu_parent
    return None
