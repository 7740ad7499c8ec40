"""Host meter: memory of the profiled processes, sensors of the GPUs, and how busy others are."""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from pitstop.core.private import private

EVERY_SECONDS = 1.0  # sensors change slowly, and asking the driver is not free
WORKING = ("user", "nice", "system", "irq", "softirq", "steal")
OWN_TIMES = 4  # of a process: user and system, its own and those of children that have ended
MOST_SAMPLES = 20_000  # then samples come half as often: weeks of training stay small


class HostMeter:
    """Samples one process with its children, and every GPU; writes ``host.jsonl``."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._process = psutil.Process(pid)
        self._path = folder / "host.jsonl"
        self._begun = time.perf_counter()
        self._every = EVERY_SECONDS
        self._next = 0.0
        self._written = 0
        self._gpus = _Gpus()
        self._cores = _Cores(self._process)

    def sample(self) -> None:
        """Write one sample when it is time for one."""
        now = time.perf_counter() - self._begun
        if now < self._next:
            return
        self._next = now + self._every
        try:
            family = [self._process, *self._process.children(recursive=True)]
            memory = [[each.pid, *_memory(each)] for each in family]
            others = self._cores.used_by_others(now, family)
        except psutil.Error:
            return
        gpus = self._gpus.read()
        self._write({"at": round(now, 3), "memory": memory, "gpus": gpus, "others": others})

    def _write(self, sample: dict[str, Any]) -> None:
        self._written += 1
        if self._written % MOST_SAMPLES == 0:
            self._every *= 2
        with (
            contextlib.suppress(OSError),
            open(self._path, "a", encoding="utf-8", opener=private) as stream,
        ):
            stream.write(json.dumps(sample, separators=(",", ":")) + "\n")


class _Cores:
    """How busy others keep the cores that a process may use; a hypervisor's other guests, too."""

    def __init__(self, process: psutil.Process) -> None:
        self._last: tuple[float, float] | None = None
        self._usable: Sequence[int] = ()
        with contextlib.suppress(AttributeError, psutil.Error):  # not every system tells
            self._usable = process.cpu_affinity()

    def used_by_others(self, now: float, family: Sequence[psutil.Process]) -> float | None:
        """The share of their time since the last call, but for the work of these processes."""
        cores = psutil.cpu_times(percpu=True)
        cores = [cores[each] for each in self._usable if each < len(cores)] or cores
        all_work = sum(getattr(core, each, 0.0) for core in cores for each in WORKING)
        work = all_work - sum(sum(each.cpu_times()[:OWN_TIMES]) for each in family)
        last, self._last = self._last, (now, work)
        if last is None or now <= last[0]:
            return None
        return round(max(0.0, work - last[1]) / (now - last[0]) / len(cores), 3)


class _Gpus:
    """The sensors of every GPU; none where NVML is not there."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        with contextlib.suppress(Exception):
            import pynvml  # noqa: PLC0415 loads the driver's library

            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            self._nvml = pynvml

    def read(self) -> list[list[float | None]]:
        """Share of time busy, SM clock in MHz, watts and degrees of each GPU."""
        return [self._sensors(handle) for handle in self._handles]

    def _sensors(self, handle: Any) -> list[float | None]:
        nvml = self._nvml
        questions: tuple[Callable[[], float], ...] = (
            lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        answers: list[float | None] = []
        for question in questions:
            try:
                answers.append(question())
            except nvml.NVMLError:
                answers.append(None)
        return answers


def _memory(process: psutil.Process) -> tuple[int, int | None]:
    """Resident bytes, and the proportional share where the system tells: shared pages divided."""
    try:
        full = process.memory_full_info()
        return full.rss, getattr(full, "pss", None)
    except psutil.AccessDenied:
        return process.memory_info().rss, None
