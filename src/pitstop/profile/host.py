"""Host meter: memory of the profiled processes and sensors of the GPUs, read from outside."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

EVERY_SECONDS = 1.0  # sensors change slowly, and asking the driver is not free
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

    def sample(self) -> None:
        """Write one sample when it is time for one."""
        now = time.perf_counter() - self._begun
        if now < self._next:
            return
        self._next = now + self._every
        try:
            family = [self._process, *self._process.children(recursive=True)]
            memory = [[each.pid, *_memory(each)] for each in family]
        except psutil.Error:
            return
        self._write({"at": round(now, 3), "memory": memory, "gpus": self._gpus.read()})

    def _write(self, sample: dict[str, Any]) -> None:
        self._written += 1
        if self._written % MOST_SAMPLES == 0:
            self._every *= 2
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(sample, separators=(",", ":")) + "\n")


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
