"""Kernel times: what torch's own profiler saw in an inspected step.

Its events are read as kineto has them: torch's tree of them takes half a minute to build for the
hundred thousand events of a large step.
"""

import gzip
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pitstop import internals
from pitstop.profile.inspect.gaps import WAITS, by_name, is_transfer
from pitstop.profile.inspect.profiler import Profiler
from pitstop.profile.inspect.watch import RANGE

LAYOUT = ("nchwtonhwc", "nhwctonchw", "nchw2nhwc", "nhwc2nchw")  # parts of kernels' names
LARGEST_TRACE_BYTES = 100 * 2**20  # Perfetto opens no more in a browser


@dataclass(frozen=True, slots=True)
class Seen:
    """An operation or range of torch's, a CUDA call, or a kernel."""

    name: str
    on_host: bool
    thread: int
    start_ns: int
    end_ns: int
    number: int
    caller: int  # number of the operation that made this call or launched this kernel, or 0


class KernelTimes:
    """Records one step's kernels and ties them to the operations that launched them."""

    def __init__(self, trace: Path | None) -> None:
        self._profiler = Profiler(use_device="cuda" if torch.cuda.is_initialized() else None)
        self._trace = trace
        self.layout: dict[int, float] = {}  # of the µs by operation
        self.waits: list[int | None] = []  # operation numbers of the synchronisations, in order

    def start(self) -> None:
        """Begin."""
        self._profiler.start()

    def stop(self) -> tuple[dict[int, float], list[list[Any]]]:
        """Device µs by operation number, and all kernels by name with calls and µs."""
        profile = self._profiler.stop()
        if profile is None:
            return {}, []
        events = list(_events(profile))
        operations = operations_by_caller(events)
        ran = kernels(events)
        by_operation = _micros(ran, operations)
        self.layout = _micros([kernel for kernel in ran if _converts_layout(kernel)], operations)
        self.waits = waits(events, operations)
        if self._trace:
            _write_trace(profile, self._trace)
        micros = ((each.name, (each.end_ns - each.start_ns) / 1e3) for each in ran)
        return by_operation, by_name(micros)


def operations_by_caller(events: Sequence[Seen]) -> dict[int, int]:
    """For each event of torch's that lies in a range of ours, that range's operation number."""
    found: dict[int, int] = {}
    around: list[Seen] = []  # the open ranges of ours in the thread at hand
    own = (event for event in events if event.on_host and not event.caller)
    for event in sorted(own, key=lambda each: (each.thread, each.start_ns, -each.end_ns)):
        while around and not _contains(around[-1], event):
            around.pop()
        if event.name.startswith(RANGE):
            around.append(event)
        if around and (digits := around[-1].name.removeprefix(RANGE)).isdigit():
            found[event.number] = int(digits)
    return found


def kernels(events: Sequence[Seen]) -> list[Seen]:
    """What computed on the device: no transfers, in which it is idle, and no shadows of ranges."""
    ranges = {event.name for event in events if event.on_host}
    return [
        event
        for event in events
        if not event.on_host and event.name not in ranges and not is_transfer(event.name)
    ]


def waits(events: Sequence[Seen], operations: dict[int, int]) -> list[int | None]:
    """The operations that made Python wait for the device; none where the script itself did.

    Operations in no range are our own, as the checksum of a frozen module's input: no other step
    has their waits.
    """
    calls = [
        event
        for event in events
        if event.on_host
        and event.name.startswith(WAITS)
        and (not event.caller or event.caller in operations)
    ]
    calls.sort(key=lambda call: call.start_ns)
    found = [operations.get(call.caller) for call in calls]
    while found and found[-1] is None:
        found.pop()  # the last ones are our own and the profiler's
    return found


def _write_trace(seen: Any, path: Path) -> None:
    """Write the gzipped trace, unless it would be too large to open."""
    plain = path.with_suffix("")
    seen.export_chrome_trace(str(plain))
    with plain.open("rb") as source, gzip.open(path, "wb") as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()
    if path.stat().st_size > LARGEST_TRACE_BYTES:
        path.unlink()


def _events(profile: Any) -> Iterator[Seen]:
    results = profile.kineto_results
    for event in results.events() if results else ():
        start = event.start_ns()
        yield Seen(
            event.name(),
            event.device_type() == internals.DeviceType.CPU,
            event.start_thread_id(),
            start,
            start + event.duration_ns(),
            event.correlation_id(),
            event.linked_correlation_id(),
        )


def _contains(outer: Seen, inner: Seen) -> bool:
    return outer.thread == inner.thread and inner.start_ns < outer.end_ns


def _micros(ran: Sequence[Seen], operations: dict[int, int]) -> dict[int, float]:
    found: dict[int, float] = defaultdict(float)
    for kernel in ran:
        if (number := operations.get(kernel.caller)) is not None:
            found[number] += (kernel.end_ns - kernel.start_ns) / 1e3
    return dict(found)


def _converts_layout(kernel: Seen) -> bool:
    return any(part in kernel.name.lower() for part in LAYOUT)
