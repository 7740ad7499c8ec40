"""Bench: run one of the five systems as a stranger would, and read what it prints.

The systems know nothing of Pitstop. Like most training scripts they print ``key=value`` lines
(``[step 3/20] loss=0.12 time=0.51s``, ``[val] ...``, ``[done] ...``); that is all we rely on.
"""

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psutil

from pitstop.core.errors import PitstopError
from pitstop.workloads.expect import load

FOLDER = Path(__file__).parent
WARMUP_STEPS = 2  # first steps pay for allocations, autotuning and cold files
POLL_SECONDS = 0.2  # memory is sampled; a shorter peak than this can be missed
PAIR = re.compile(r"(\w+)=([^\s=]+)")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a workload printed, and the memory it took."""

    step_seconds: tuple[float, ...]
    batch: int
    metric: str
    quality_before: float | None
    quality_after: float | None
    peak_host_bytes: int
    peak_gpu_bytes: int | None = None

    @property
    def steady_seconds(self) -> tuple[float, ...]:
        """Step times after warm-up; all of them where the run was too short for that."""
        return self.step_seconds[WARMUP_STEPS:] or self.step_seconds

    @property
    def median_seconds(self) -> float:
        """The middle steady step."""
        return median(self.steady_seconds)

    @property
    def quartiles_seconds(self) -> tuple[float, float]:
        """The spread: a quarter of the steady steps lie below the first, a quarter above."""
        if len(self.steady_seconds) < 2:
            return self.median_seconds, self.median_seconds
        low, _, high = quantiles(self.steady_seconds, n=4, method="inclusive")
        return low, high


def names() -> list[str]:
    """The workloads: folders that hold a ``slow.py``."""
    return sorted(path.parent.name for path in FOLDER.glob("*/slow.py"))


def summary(name: str) -> str:
    """The first line of a workload's README below its title."""
    lines = (FOLDER / name / "README.md").read_text(encoding="utf-8").splitlines()
    return next((line for line in lines[1:] if line.strip()), "")


def run(name: str, arguments: list[str], on_line: Callable[[str], None] | None = None) -> Outcome:
    """Run a workload as found in a process of its own; its logs and checkpoints are discarded."""
    if name not in names():
        raise PitstopError(f"no workload {name!r}: choose one of {', '.join(names())}")
    with tempfile.TemporaryDirectory(prefix=f"pitstop-{name}-") as out:
        command = [sys.executable, "-m", f"pitstop.workloads.{name}.slow", "--out", out]
        with subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            try:
                peak = _Peak(process.pid)
                lines = list(_tee(process.stdout or (), on_line))
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise PitstopError(f"{name} ended with exit code {process.returncode}: see above")
    return parse(name, lines, peak.stop())


def parse(name: str, lines: Iterable[str], peak_host_bytes: int = 0) -> Outcome:
    """Read a run's printed lines."""
    metric = load(name).quality.metric
    seconds, values, done = [], [], {}
    for line in lines:
        pairs = dict(PAIR.findall(line))
        if line.startswith("[step "):
            seconds.append(_number(pairs["time"]))
        elif line.startswith("[val]") and metric in pairs:
            values.append(_number(pairs[metric]))
        elif line.startswith("[done]"):
            done = pairs
    if not seconds or not done:
        raise PitstopError(f"{name} printed no finished step: run it with --steps 1 or more")
    gpu = _number(done["peak_mem"]) * 2**20 if "peak_mem" in done else None
    return Outcome(
        step_seconds=tuple(seconds),
        batch=int(done["batch"]),
        metric=metric,
        quality_before=values[0] if values else None,
        quality_after=_number(done[metric]) if metric in done else None,
        peak_host_bytes=peak_host_bytes,
        peak_gpu_bytes=None if gpu is None else int(gpu),
    )


def _tee(lines: Iterable[str], on_line: Callable[[str], None] | None) -> Iterator[str]:
    for line in lines:
        if on_line:
            on_line(line.rstrip("\n"))
        yield line


def _number(text: str) -> float:
    found = NUMBER.match(text)
    return float(found.group()) if found else float("nan")


class _Peak:
    """Largest memory of a process and its children, sampled by a thread until stopped."""

    def __init__(self, pid: int) -> None:
        self._bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(pid,), daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """End the sampling and return the peak in bytes."""
        self._over.set()
        self._thread.join()
        return self._bytes

    def _watch(self, pid: int) -> None:
        while not self._over.wait(POLL_SECONDS):
            try:
                process = psutil.Process(pid)
                family = [process, *process.children(recursive=True)]
                self._bytes = max(self._bytes, sum(each.memory_info().rss for each in family))
            except psutil.Error:
                continue
