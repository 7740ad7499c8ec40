"""The pool: jobs spread over processes, the same file to the same process in both passes."""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar
from zlib import crc32

from pitstop.scan.parse import parse_and_keep
from pitstop.scan.shared import Shared, left_in_a_file
from pitstop.scan.worker import Job

Answer = TypeVar("Answer")
Tick = Callable[[int], None]

WORTH_A_PROCESS_CHARACTERS = 1_000_000  # some 25,000 lines: below that, starting costs more
MOST_PROCESSES = 8  # each keeps its trees in memory, and gets a copy of the project's facts
SAFE_PATH = "PYTHONSAFEPATH"
CHUNK = 24  # files per message: few messages, and a progress bar that moves


@contextmanager
def _unable_to_import_from_here() -> Iterator[None]:
    """Processes that start meanwhile do not look for modules in the current folder.

    It may be a stranger's, with a ``signal.py`` that would run. This is Python's option ``-P``,
    which multiprocessing has no other way to pass on.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


class Pool:
    """Executors of one process each, so that a process finds the trees it has parsed before."""

    def __init__(self, processes: int = 0, tick: Tick = lambda _: None) -> None:
        """``processes`` at most, 0 for all cores; ``tick`` hears how many files are done."""
        self.limit = processes or min(usable_cores(), MOST_PROCESSES)
        self.tick = tick
        self.executors: list[ProcessPoolExecutor] = []
        self.collected = False

    def __enter__(self) -> "Pool":
        # Trees hold no cycles worth collecting, and looking for them costs a third of the time.
        self.collected = gc.isenabled()
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        parse_and_keep.cache_clear()
        if self.collected:
            gc.enable()

    @_unable_to_import_from_here()
    def run(
        self,
        work: Callable[..., list[Answer]],
        jobs: Sequence[Job],
        *arguments: Any,
        shared: tuple[bytes, ...] | None = None,
    ) -> list[Answer]:
        """``work`` over all jobs, answers in their order; what is ``shared`` is sent once."""
        self._start(sum(len(job.text) for job in jobs))
        chunks = self._chunks(jobs)
        if self.executors:
            try:
                if shared is None:
                    return self._spread(work, jobs, chunks, arguments)
                with left_in_a_file(shared) as seen:
                    return self._spread(work, jobs, chunks, (seen, *arguments))
            except (BrokenProcessPool, OSError):  # no processes to be had: do it here
                self._stop()
        if shared is not None:
            arguments = (Shared(shared), *arguments)
        answers: dict[int, Answer] = {}
        for _, share in chunks:
            answers.update(zip(share, work([jobs[i] for i in share], *arguments), strict=True))
            self.tick(len(share))
        return [answers[index] for index in range(len(jobs))]

    def _start(self, characters: int) -> None:
        """Start as many processes as pay off; those that run already are kept."""
        count = min(self.limit, characters // WORTH_A_PROCESS_CHARACTERS)
        if count > 1 and not self.executors:
            context = multiprocessing.get_context("spawn")  # the same on every system
            self.executors = [
                ProcessPoolExecutor(1, mp_context=context, initializer=gc.disable)
                for _ in range(count)
            ]

    def _stop(self) -> None:
        for executor in self.executors:
            executor.shutdown(cancel_futures=True)
        self.executors = []

    def _chunks(self, jobs: Sequence[Job]) -> list[tuple[int, list[int]]]:
        """Executor and job numbers of each chunk; a file's name decides where it goes."""
        shares: dict[int, list[int]] = {}
        count = max(len(self.executors), 1)
        for index, job in enumerate(jobs):
            shares.setdefault(crc32(job.name.encode()) % count, []).append(index)
        return [
            (which, share[start : start + CHUNK])
            for which, share in shares.items()
            for start in range(0, len(share), CHUNK)
        ]

    def _spread(
        self,
        work: Callable[..., list[Answer]],
        jobs: Sequence[Job],
        chunks: list[tuple[int, list[int]]],
        arguments: tuple[Any, ...],
    ) -> list[Answer]:
        futures: dict[Future[list[Answer]], list[int]] = {
            self.executors[which].submit(work, [jobs[i] for i in share], *arguments): share
            for which, share in chunks
        }
        answers: dict[int, Answer] = {}
        for future in as_completed(futures):
            answers.update(zip(futures[future], future.result(), strict=True))
            self.tick(len(futures[future]))
        return [answers[index] for index in range(len(jobs))]


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
