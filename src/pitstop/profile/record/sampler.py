"""Sampler: which line runs, a thousand times a second, for time that nothing else explains.

A thread looks at another thread's stack. Python hands over its lock only every five milliseconds
unless the running thread lets go of it, as torch does in every operation; then only those places
would be seen. So the lock is handed over more often while samples are taken.
"""

import _thread
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pitstop.profile.source.lines import is_generated, is_torch, origin_of, user_line

EVERY_SECONDS = 0.001  # a step of 7 ms gets a handful of samples
UNEVEN = 0.618  # spreads the pauses evenly over half to one and a half: no step beats in time
MOST_LOOKS = 10_000  # a step that takes longer than ten seconds has told what it does
HANDOVER_SECONDS = 0.0001  # a tenth of that: a sample is taken nearly where it was due
USUAL_SECONDS = 0.005  # Python's own
LOCK = threading.Lock()  # held while garbage is not collected: no fork may inherit that

Row = tuple[str, int, str, str, bool]  # the user's line, the function inside it, in a wait


class Sampler:
    """Looks at one thread's stack until stopped, or until it has seen enough."""

    def __init__(
        self,
        thread: int,
        waiting: Callable[[], bool],
        enough: int = sys.maxsize,
        idle: tuple[str, ...] = (),
        at_end: Callable[[list[list[Any]]], None] = lambda _: None,
    ) -> None:
        self._watched = thread
        self._waiting = waiting  # whether the script waits for a batch now
        self._enough = enough
        self._idle = idle  # parts of functions' names that do nothing, and count for nothing
        self._at_end = at_end  # called by the sampling thread
        self._over = threading.Event()
        self._counts: Counter[Row] = Counter()
        self._runs = threading.Lock()  # held by the sampling thread

    def start(self) -> None:
        """Begin to look, in a thread that the script does not find among its own."""
        self._runs.acquire()
        _thread.start_new_thread(self._look, ())

    def stop(self) -> list[list[Any]]:
        """Path, line, function, what ran inside, in a wait, and samples; most samples first."""
        self._over.set()
        with self._runs:
            return self._rows()

    def _rows(self) -> list[list[Any]]:
        return [[*row, count] for row, count in self._counts.most_common()]

    def _look(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(HANDOVER_SECONDS)
        try:
            for look in range(MOST_LOOKS):
                pause = EVERY_SECONDS * (0.5 + look * UNEVEN % 1)
                if self._over.wait(pause) or self._counts.total() >= self._enough:
                    break
                self._take(_frame(self._watched))
            self._at_end(self._rows())
        finally:
            sys.setswitchinterval(before)
            self._runs.release()

    def _take(self, frame: FrameType | None) -> None:
        inside = _inside(frame)
        if not any(each in inside for each in self._idle):
            self._counts[*user_line(frame), inside, self._waiting()] += 1


def _frame(thread: int) -> FrameType | None:
    """What a thread is doing.

    Before 3.12 Python holds a lock meanwhile, which a collection of garbage may wait for forever.
    """
    with LOCK:
        collects = sys.version_info < (3, 12) and gc.isenabled()
        if collects:
            gc.disable()
        try:
            return sys._current_frames().get(thread)
        finally:
            if collects:
                gc.enable()


def safe_to_fork() -> None:
    """Let a fork of this process, sampled right now or not, be as if it was not."""

    def in_child() -> None:
        LOCK.release()
        if round(sys.getswitchinterval(), 6) == HANDOVER_SECONDS:
            sys.setswitchinterval(USUAL_SECONDS)

    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=in_child)


def _inside(frame: FrameType | None) -> str:
    """The innermost function but our own: ``PIL/ImageFile.py:load``; a compiled one before that."""
    innermost: CodeType | None = None
    while frame is not None:
        code = frame.f_code
        origin = origin_of(code.co_filename)
        if is_generated(code.co_filename):
            innermost = code
            break
        if innermost is None and (origin != "hidden" or is_torch(code.co_filename)):
            innermost = code
        if origin == "user":
            break
        frame = frame.f_back
    if innermost is None:
        return ""
    return f"{'/'.join(Path(innermost.co_filename).parts[-2:])}:{innermost.co_qualname}"
