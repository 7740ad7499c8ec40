"""Kernel times: what the GPU did in an inspected step, from torch's own profiler."""

from collections import defaultdict
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from pitstop.profile.watch import RANGE


class KernelTimes:
    """Records one step's kernels and ties them to the operations that launched them."""

    def __init__(self) -> None:
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

    def start(self) -> None:
        """Begin; the device is idle first, so that the step's kernels are the step's own."""
        torch.cuda.synchronize()
        self._profile.__enter__()

    def stop(self) -> tuple[dict[int, float], list[list[Any]]]:
        """Device µs by operation number, and all kernels by name with calls and µs."""
        torch.cuda.synchronize()
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
        rows = [[name, int(calls), round(micros, 1)] for name, (calls, micros) in by_name.items()]
        return dict(by_operation), sorted(rows, key=lambda row: -row[2])


def _operation_of(event: Any) -> int | None:
    """The number in the nearest range of ours around an event."""
    while event is not None:
        if event.name.startswith(RANGE):
            return int(event.name.removeprefix(RANGE))
        event = event.cpu_parent
    return None
