"""Headspace: what a perfect loader would give, measured on the script itself.

When ``--quick`` has seen enough, nothing of the run is wanted any more. So it goes on for a few
steps whose batches are those that the loader gave last, kept in memory: nothing is read, decoded
or passed between processes. Workers first finish what they were told to read. The step that is
left is the bound of all that faster loading can bring.
"""

import copy
import json
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import torch

from pitstop import internals
from pitstop.profile.hooks.attempt import attempt
from pitstop.profile.hooks.patch import Undo, patch
from pitstop.profile.start.options import HEADSPACE

MOST_KEPT = 16  # batches; a step of more is fed with these again and again
MOST_BYTES = 1_000_000_000  # of them; one is kept in any case
STEPS = 8  # that are measured
SETTLING_S = 20.0  # that workers may take to become idle
MEASURED_S = 20.0
FEWEST = 3  # steps, where each takes long
LONGEST_S = 10.0  # of a step: no one waits for eight more of these
IDLE = 0.05  # of a core: what workers use at most when they wait


class Headspace:
    """Feeds one loader's batches again, and takes the time of steps."""

    def __init__(self, folder: Path, iterator: Any, per_step: int, end: type[BaseException]):
        self._file = folder / HEADSPACE
        self._dataset = internals.dataset_of(iterator)
        self._per_step = per_step
        self._wanted = min(MOST_KEPT, max(per_step, 4))
        self._end = end
        self._kept: list[tuple[Any, list[tuple[torch.Tensor, int]]]] = []
        self._bytes = self._given = 0
        self._full = self._disturbed = False
        self._begun = time.monotonic()
        self._at = 0.0  # the begin of the current step
        self._cpu_s = 0.0  # of the workers, by then
        self._first: float | None = None  # the begin of the first step that counts
        self._steps_ms: list[float] = []
        self._undo: Undo = patch((internals.LoaderIterator,), "__next__", self._build)

    def _build(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def fetch(iterator: Any) -> Any:
            if internals.dataset_of(iterator) is not self._dataset:
                self._disturbed = True  # a validation
                return original(iterator)
            if not self._full:
                value = original(iterator)
                if not attempt(self._keep, value):
                    self._stop()
                return value
            if attempt(self._next_begins, otherwise=True):
                self._stop()
            value, _ = self._kept[self._given % len(self._kept)]
            self._given += 1
            return attempt(_again, value, otherwise=value)

        return fetch

    def _stop(self) -> NoReturn:
        self._undo()
        raise self._end(0)

    def _keep(self, value: Any) -> bool:
        tensors = [each for each in internals.tree_iter(value) if isinstance(each, torch.Tensor)]
        self._kept.append((_again(value), [(each, internals.writes(each)) for each in tensors]))
        self._bytes += sum(each.nbytes for each in tensors)
        self._full = len(self._kept) >= self._wanted or self._bytes >= MOST_BYTES
        steps = 1 + len(self._kept) / self._per_step
        return time.monotonic() - self._begun < LONGEST_S * steps

    def _next_begins(self) -> bool:
        """A batch is asked for; whether all is measured, or cannot be."""
        if any(
            internals.writes(each) != version for _, kept in self._kept for each, version in kept
        ):
            return True  # the script writes into its batches: these are others by now
        if self._given % self._per_step:
            return False
        now, cpu_s = time.monotonic(), _workers_cpu_s()
        if self._first is None or (self._disturbed and torch.cuda.is_initialized()):
            now = self._settle(now, cpu_s)
        elif not self._disturbed:
            self._steps_ms.append(1e3 * (now - self._at))
        self._at, self._cpu_s, self._disturbed = now, cpu_s, False
        enough = len(self._steps_ms) >= STEPS
        late = self._first is not None and now - self._first > MEASURED_S
        if enough or (late and len(self._steps_ms) >= FEWEST):
            self._tell()
            return True
        return False

    def _settle(self, now: float, cpu_s: float) -> float:
        """The steps that count begin now, if workers did nothing during the one that ended."""
        idle = cpu_s - self._cpu_s < IDLE * (now - self._at)
        if not (idle and self._at) and now - self._begun < SETTLING_S:
            return now
        self._steps_ms.clear()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self._first = time.monotonic()
        return self._first

    def _tell(self) -> None:
        step_ms = median(self._steps_ms)
        if torch.cuda.is_initialized() and self._first:  # the script runs ahead of it
            torch.cuda.synchronize()
            step_ms = 1e3 * (time.monotonic() - self._first) / len(self._steps_ms)
        took_s = time.monotonic() - self._begun
        told: dict[str, float] = {"step_ms": step_ms, "steps": len(self._steps_ms)}
        told |= {"batches": len(self._kept), "took_s": took_s}
        self._file.write_text(json.dumps(told))


def begins(folder: str, fed: tuple[Any, int], steps: int, end: type) -> bool:
    """Go on with batches from memory; false where that would tell nothing."""
    iterator, batches = fed
    if iterator is None or batches < steps:
        return False
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False  # ranks would have to end together
    Headspace(Path(folder), iterator, round(batches / steps), end)
    return True


def _again(value: Any) -> Any:
    """The same tensors in new containers: scripts take batches apart."""
    if isinstance(value, dict):
        fresh = copy.copy(value)
        for key in fresh:
            fresh[key] = _again(fresh[key])
        return fresh
    if type(value) in (list, tuple):
        return type(value)(map(_again, value))
    return value if isinstance(value, torch.Tensor | str | tuple) else copy.copy(value)


def _workers_cpu_s() -> float:
    """Processor time that workers have used; nothing where the system does not tell."""
    total = 0.0
    for worker in multiprocessing.active_children():
        try:
            told = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(told[11]) + int(told[12])) / 100  # Linux counts in hundredths
    return total
