"""Profiler: torch's own, for a step or two, never in the way of one that the script starts.

A range that is open when a profiler ends writes its end into memory of that profiler, which is
freed by then, as soon as another one runs. ``optimizer.step`` is such a range, and a step ends
inside it: so ``Scope`` leaves a step between two profilers, or the process dies of it much later.

NVIDIA's part of it (CUPTI) stays in the process, and every launch of the rest of the run takes
longer: a step of 290 ms took 340. So the last profiler sends it away.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch.autograd import profiler as autograd_profiler

from pitstop import internals
from pitstop.profile.hooks.patch import Undo, patch

LOG_LEVEL = "KINETO_LOG_LEVEL"
SILENT = "99"  # above every level: kineto writes each start and stop to the script's stderr
TEARDOWN = "TEARDOWN_CUPTI"
SAFE_TEARDOWN = (12, 6)  # CUDA; before that a process with CUDA graphs may die of it
TEARDOWN_SECONDS = 0.02  # until a thread of kineto's waits for the next CUDA call, to end it there


class Profiler:
    """Used once. What it saw is lost where the script starts a profiler meanwhile."""

    def __init__(self, **what: Any) -> None:
        # What torch.profiler is built on: it has no schedule, warns of none, and is freed at once.
        self._profile: Any = autograd_profiler.profile(use_kineto=True, **what)
        self._undo: Undo | None = None

    def start(self) -> None:
        """Begin, when the device is idle: what it does from now on is the step's own."""
        if may_profile():
            _synchronise()
            with _silent():
                self._profile.__enter__()
            self._undo = patch((autograd_profiler,), "_prepare_profiler", self._giving_way)

    def stop(self, last: bool = False) -> Any:
        """End, when the device is idle; what torch's profiler saw, or ``None``."""
        if self._undo is None:
            return None
        self._undo()
        self._undo = None
        _synchronise()
        with _teardown() if last and _can_tear_down() else nullcontext():
            self._profile.__exit__(None, None, None)
        seen, self._profile = self._profile, None
        return seen

    def _giving_way(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(*arguments: Any, **options: Any) -> Any:
            self.stop()
            return original(*arguments, **options)

        return prepare


def may_profile() -> bool:
    """Whether the script has no profiler of its own, running or not: there can be only one."""
    if internals.is_profiling():
        return False
    return not any(issubclass(type(each), torch.profiler.profile) for each in gc.get_objects())


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        with suppress(RuntimeError):  # a device that has failed; the script will hear of it
            torch.cuda.synchronize()


def _can_tear_down() -> bool:
    version = (torch.version.cuda or "0").split(".")[:2]
    known = torch.cuda.is_initialized() and TEARDOWN not in os.environ
    return known and tuple(map(int, version)) >= SAFE_TEARDOWN


@contextmanager
def _teardown() -> Iterator[None]:
    """Let kineto send CUPTI away with the profiler that ends; ``os.environ`` does not change."""
    os.putenv(TEARDOWN, "1")
    try:
        yield
        for _ in range(2):
            time.sleep(TEARDOWN_SECONDS)
            _synchronise()
    finally:
        os.unsetenv(TEARDOWN)


@contextmanager
def _silent() -> Iterator[None]:
    before = os.environ.get(LOG_LEVEL)
    os.environ.setdefault(LOG_LEVEL, SILENT)
    try:
        yield
    finally:
        if before is None:
            del os.environ[LOG_LEVEL]
