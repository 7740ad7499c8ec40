"""Kernel times: what torch's own profiler saw in an inspected step."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from pitstop.profile.watch import RANGE

LARGEST_TRACE_BYTES = 100 * 2**20  # Perfetto opens no more in a browser


class KernelTimes:
    """Records one step's kernels and ties them to the operations that launched them."""

    def __init__(self, trace: Path | None) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(activities=activities)
        self._trace = trace

    def start(self) -> None:
        """Begin; the device is idle first, so that the step's kernels are the step's own."""
        _synchronise()
        self._profile.__enter__()

    def stop(self) -> tuple[dict[int, float], list[list[Any]]]:
        """Device µs by operation number, and all kernels by name with calls and µs."""
        _synchronise()
        self._profile.__exit__(None, None, None)
        by_operation: dict[int, float] = defaultdict(float)
        by_name: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        for event in self._profile.events() or ():
            for kernel in event.kernels:
                by_name[kernel.name][0] += 1
                by_name[kernel.name][1] += kernel.duration
                number = _operation_of(event)
                if number is not None:
                    by_operation[number] += kernel.duration
        self._keep_trace()
        rows = [[name, int(calls), round(micros, 1)] for name, (calls, micros) in by_name.items()]
        return dict(by_operation), sorted(rows, key=lambda row: -row[2])

    def _keep_trace(self) -> None:
        """Write the gzipped trace, unless it would be too large to open."""
        if self._trace:
            self._profile.export_chrome_trace(str(self._trace))
            if self._trace.stat().st_size > LARGEST_TRACE_BYTES:
                self._trace.unlink()


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _operation_of(event: Any) -> int | None:
    """The number in the nearest range of ours around an event."""
    while event is not None:
        if event.name.startswith(RANGE):
            number = event.name.removeprefix(RANGE)
            return int(number) if number.isdigit() else None
        event = event.cpu_parent
    return None
