"""Host meter: memory of the profiled processes and sensors of the GPUs, read from outside."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import psutil

SENSOR_SECONDS = 1.0  # sensors change slowly, and asking the driver is not free
LARGEST_SAMPLES = 20_000  # then every second sample is dropped: days of training stay small


class HostMeter:
    """Samples one process and its children until they are gone; writes ``host.jsonl``."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._process = psutil.Process(pid)
        self._path = folder / "host.jsonl"
        self._begun = time.perf_counter()
        self._every = SENSOR_SECONDS
        self._next = 0.0
        self._written = 0

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
        self._write({"at": round(now, 3), "memory": memory})

    def _write(self, sample: dict[str, Any]) -> None:
        self._written += 1
        if self._written % LARGEST_SAMPLES == 0:
            self._every *= 2
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(sample) + "\n")


def _memory(process: psutil.Process) -> tuple[int, int | None]:
    """Resident bytes, and the proportional share where the system tells: shared pages divided."""
    try:
        full = process.memory_full_info()
        return full.rss, getattr(full, "pss", None)
    except psutil.AccessDenied:
        return process.memory_info().rss, None
