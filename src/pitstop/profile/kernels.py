"""Kernel times: what torch's own profiler saw in an inspected step."""

import gzip
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from pitstop.profile.gaps import WAITS, is_transfer
from pitstop.profile.profiler import Profiler
from pitstop.profile.watch import RANGE

LAYOUT = ("nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw")  # parts of kernels' names
LARGEST_TRACE_BYTES = 100 * 2**20  # Perfetto opens no more in a browser


class KernelTimes:
    """Records one step's kernels and ties them to the operations that launched them."""

    def __init__(self, trace: Path | None) -> None:
        self._profiler = Profiler(use_device="cuda" if torch.cuda.is_initialized() else None)
        self._trace = trace
        self.layout: dict[int, float] = defaultdict(float)  # of the µs by operation
        self.waits: list[int | None] = []  # operation numbers of the synchronisations, in order

    def start(self) -> None:
        """Begin."""
        self._profiler.start()

    def stop(self) -> tuple[dict[int, float], list[list[Any]]]:
        """Device µs by operation number, and all kernels by name with calls and µs."""
        seen = self._profiler.stop()
        if seen is None:
            return {}, []
        events = list(seen.function_events or ())
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
        if self._trace:
            _write_trace(seen, self._trace)
        rows = [[name, int(calls), round(micros, 1)] for name, (calls, micros) in by_name.items()]
        return dict(by_operation), sorted(rows, key=lambda row: -row[2])


def _write_trace(seen: Any, path: Path) -> None:
    """Write the gzipped trace, unless it would be too large to open."""
    plain = path.with_suffix("")
    seen.export_chrome_trace(str(plain))
    with plain.open("rb") as source, gzip.open(path, "wb") as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()
    if path.stat().st_size > LARGEST_TRACE_BYTES:
        path.unlink()


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
