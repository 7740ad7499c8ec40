"""Timeline: when the GPU was idle in a step of nearly undisturbed speed, and why.

torch's profiler sees kernels, transfers and CUDA calls alone, no operation: that slows a step by
a few percent, where the inspected steps are many times slower. A first step fills the queue
again, which is empty after the profiler has started. Of the two after it the quicker one is read:
a collection of garbage, or another process on the machine, only adds.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.inspect.gaps import Event, Place, by_name, gaps, is_transfer, located
from pitstop.profile.inspect.profiler import Profiler

STEPS = 3  # the first refills the queue


class Timeline:
    """Records a few steps' device activity; used once."""

    def __init__(self) -> None:
        self._profiler = Profiler(use_cpu=False, use_device="cuda")
        self._marks_us: list[float] = []

    def start(self) -> None:
        """Begin with a step that does not count."""
        self._profiler.start()
        self._mark()

    def step_ends(self) -> bool:
        """Take note of a step's end; whether it was the last one needed."""
        self._mark()
        return len(self._marks_us) > STEPS

    def stop(self, sync_lines: Sequence[Place]) -> dict[str, Any]:
        """Idle stretches, kernels and transfers of one step, as plain values for the recording.

        ``sync_lines`` are those that waited for the device in an inspected step, in order.
        """
        seen = self._profiler.stop(last=True)
        if seen is None:
            return {}
        events, marks = list(_events(seen)), self._marks_us
        ends = range(2, len(marks))
        end = min(ends, key=lambda each: marks[each] - marks[each - 1])
        begin_us, end_us = marks[end - 1], marks[end]
        inside = [each for each in events if begin_us <= each.start < end_us]
        ran = [(each.name, each.end - each.start) for each in inside if not each.host]
        return {
            "timeline": end_us - begin_us,
            "gaps": located(gaps(events, marks, end), sync_lines),
            "kernels": by_name(each for each in ran if not is_transfer(each[0])),
            "transfers": by_name(each for each in ran if is_transfer(each[0])),
        }

    def cancel(self) -> None:
        """End the profiler."""
        self._profiler.stop(last=True)

    def _mark(self) -> None:
        self._marks_us.append(time.time_ns() / 1e3)  # the profiler's clock


def started() -> Timeline:
    """A timeline that has begun."""
    timeline = Timeline()
    timeline.start()
    return timeline


def can_begin() -> bool:
    """Whether a GPU is in use."""
    return bool(torch.cuda.is_initialized())


def _events(seen: Any) -> Iterator[Event]:
    """What the profiler saw, in microseconds."""
    results = seen.kineto_results
    for event in results.events() if results else ():
        start = event.start_ns() / 1e3
        host = event.device_type() == internals.DeviceType.CPU
        end = start + event.duration_ns() / 1e3
        yield Event(event.name(), start, end, event.correlation_id(), host)
