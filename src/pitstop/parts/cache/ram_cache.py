"""RAM cache: every sample of a dataset read once, and kept once for all processes of a machine.

Why plain PyTorch is slow here: a dataset that keeps its samples in a list or dict is copied into
each worker. With ``fork`` the copy begins small, but counting references writes to every page; with
``spawn`` it is whole from the start. Workers that fill a cache of their own each read the whole
dataset, and lose it at the end of the epoch. Eight workers and two ranks then hold up to 18 copies.

Here samples are packed into one block of shared memory (``shared_memory``), written directly by
the workers that read them, and never again. A sample is found by an index in the same block, so
there is no Python object whose references could be counted. Reading costs one copy of the sample,
or none with ``views=True``.

The floor: filling reads and decodes everything once, on all cores. A read moves the sample's bytes
once, at the memory's bandwidth.

What it does not do: it needs Linux. It keeps what the dataset returns, so random augmentation must
come after it (``then=``); samples that differ when they are read twice are refused. The process
that built the cache must live as long as the others open it. The plain twin is the dataset itself.
"""

import hashlib
import multiprocessing
import os
import random
import socket
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from pitstop.core.errors import PitstopError
from pitstop.core.units import binary_bytes, count
from pitstop.parts.cache import packing, shared_memory
from pitstop.parts.cache.shared_memory import Handle

SHARE = 0.5  # of the free memory, unless a budget is given: the training needs the rest
MISSING = -1  # in the index: a sample that did not fit
MOST_AT_ONCE = 32  # samples that a worker takes: with more the bar hardly moves

Then = Callable[[Any], Any]


class RamCache(Dataset[Any]):
    """A map-style dataset over samples in shared memory. Workers and ranks open, not copy, it."""

    def __init__(
        self,
        dataset: Any,
        handle: Handle,
        index_at: int,
        length: int,
        then: Then | None,
        views: bool,
    ) -> None:
        self.dataset = dataset  # None in another process, where everything is in memory
        self._place = handle, index_at, length
        self._then = then
        self._views = views
        self._memory = shared_memory.map_to_read(handle)
        self._starts = np.frombuffer(self._memory, np.int64, length, index_at)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Any:
        start = int(self._starts[index])
        if start == MISSING:
            sample = self.dataset[index]
        else:
            sample = packing.unpack(self._memory, start, copy=not self._views)
        return self._then(sample) if self._then else sample

    def holds(self, index: int) -> bool:
        """Whether this sample is in memory."""
        return bool(self._starts[index] != MISSING)

    @property
    def held(self) -> int:
        """How many samples are in memory; the others are read from the dataset each time."""
        return int((self._starts != MISSING).sum())

    @property
    def held_bytes(self) -> int:
        """How much memory they take, once for all processes."""
        return self._place[0].size_bytes

    def __repr__(self) -> str:
        samples = count(len(self), "sample")
        return f"RamCache({self.held} of {samples}, {binary_bytes(self.held_bytes)})"

    def __reduce__(self) -> Any:
        dataset = None if self.held == len(self) else self.dataset
        return RamCache, (dataset, *self._place, self._then, self._views)


def ram_cache(
    dataset: Any,
    *,
    then: Then | None = None,
    budget_bytes: int | None = None,
    workers: int | None = None,
    views: bool = False,
) -> RamCache:
    """Read ``dataset`` once, in parallel, and keep its samples in one block of shared memory.

    ``then`` is applied to each sample when it is read: random augmentation, or the decoding of
    pictures that are to be kept as compressed bytes. ``budget_bytes`` is half of the free memory
    unless given; samples beyond it are read from the dataset each time. ``workers`` are all cores
    unless given. With ``views`` the arrays of a sample lie in the shared block and are not to be
    written to. In a distributed run every rank calls this, and one of each machine reads.
    """
    length = _length(dataset)
    if budget_bytes is None:
        budget_bytes = int(SHARE * shared_memory.free_bytes())
    ranks = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not ranks:
        place = _filled(dataset, length, budget_bytes, workers)
    else:
        place = _one_of_each_machine(lambda: _filled(dataset, length, budget_bytes, workers))
    cache = RamCache(dataset, *place, length, then, views)
    if place[0].pid == os.getpid():
        weakref.finalize(cache, shared_memory.close, place[0])
    return cache


def _length(dataset: Any) -> int:
    try:
        length = len(dataset)
    except TypeError:
        raise PitstopError(
            f"{type(dataset).__name__} has no length: ram_cache needs a map-style dataset"
        ) from None
    if not length:
        raise PitstopError(
            f"{type(dataset).__name__} is empty: look at its folder and split before caching it"
        )
    return int(length)


def _filled(
    dataset: Any, length: int, budget_bytes: int, workers: int | None
) -> tuple[Handle, int]:
    """The memory with all that fits, and where in it the index begins."""
    probes = frozenset({0, length // 2, length - 1})
    order = [(index, False) for index in sorted(probes)]
    order += [(index, True) for index in range(length)]
    index_bytes = packing.aligned(length * packing.WORD)
    handle = shared_memory.allocate(budget_bytes + index_bytes)
    used = multiprocessing.get_context("fork").Value("q", 0)
    starts = np.full(length, MISSING, dtype=np.int64)
    digests: dict[int, bytes] = {}
    filler = _Filler(dataset, handle, budget_bytes, used, probes)
    try:
        for index, start, digest in _shown(_rows(filler, order, workers), len(order)):
            starts[index] = max(start, int(starts[index]))  # a probe has none
            if digest and digests.setdefault(index, digest) != digest:
                raise PitstopError(
                    f"sample {index} differs when it is read twice, and a cache would freeze it: "
                    "cache what comes before the random part, and give that part as then="
                )
        if (starts == MISSING).all():
            raise PitstopError(
                f"no sample fits into {binary_bytes(budget_bytes)}: give a larger budget_bytes"
            )
    except BaseException:
        shared_memory.close(handle)
        raise
    index_at = int(used.value)
    os.pwrite(handle.descriptor, starts.tobytes(), index_at)
    return shared_memory.finish(handle, index_at + index_bytes), index_at


def _rows(
    filler: "_Filler", order: list[tuple[int, bool]], workers: int | None
) -> Iterator[tuple[int, int, bytes]]:
    """What became of each sample: read by forks of this process, or by itself without workers."""
    number = min(_cores() if workers is None else workers, len(filler))
    if not number:
        before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # the user's own
        try:
            yield from map(filler, order)
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])
            torch.set_rng_state(before[2])
        return
    forks = multiprocessing.get_context("fork")
    chunk = max(1, min(MOST_AT_ONCE, len(order) // (4 * number)))
    with ProcessPoolExecutor(number, forks, _begin_worker, (filler,)) as pool:
        yield from pool.map(_fill, order, chunksize=chunk)


def _begin_worker(filler: "_Filler") -> None:
    """Each fork draws other random numbers, or a random sample would seem to repeat."""
    global _filler  # noqa: PLW0603 a fork of a pool has nowhere else to keep it
    _filler = filler
    torch.set_num_threads(1)
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(os.getpid())


def _fill(wanted: tuple[int, bool]) -> tuple[int, int, bytes]:
    return _filler(wanted)


class _Filler:
    """Reads a sample and writes it into the memory, in whatever process it is asked to."""

    def __init__(
        self, dataset: Any, handle: Handle, budget_bytes: int, used: Any, probes: frozenset[int]
    ) -> None:
        self._dataset = dataset
        self._handle = handle
        self._budget_bytes = budget_bytes
        self._used = used  # bytes so far, shared by all workers
        self._probes = probes
        self._descriptor: int | None = None  # of this process

    def __len__(self) -> int:
        return len(self._dataset)

    def __call__(self, wanted: tuple[int, bool]) -> tuple[int, int, bytes]:
        """Read one sample, and keep it unless it is a probe."""
        index, kept = wanted
        parts = packing.pack(self._dataset[index])
        start = self._room(packing.length(parts)) if kept else MISSING
        if start != MISSING:
            self._write(parts, start)
        return index, start, _digest(parts) if index in self._probes else b""

    def _room(self, size_bytes: int) -> int:
        with self._used.get_lock():
            start = int(self._used.value)
            if start + size_bytes > self._budget_bytes:
                return MISSING
            self._used.value = start + size_bytes
        return start

    def _write(self, parts: list[memoryview], at: int) -> None:
        if self._descriptor is None:
            self._descriptor = shared_memory.open_to_write(self._handle)
        for part in parts:
            written = 0
            while written < part.nbytes:  # one call writes 2 GiB at most
                written += os.pwrite(self._descriptor, part[written:], at + written)
            at += packing.aligned(part.nbytes)


_filler: _Filler  # of a fork that fills a cache


def _digest(parts: list[memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shown(rows: Iterable[Any], total: int) -> Iterable[Any]:
    """The rows, with a progress bar on a terminal."""
    from rich.console import Console  # noqa: PLC0415 only where a cache is built
    from rich.progress import track  # noqa: PLC0415 likewise

    console = Console(stderr=True)
    hidden = not console.is_terminal
    return track(
        rows, "reading into memory", total, console=console, transient=True, disable=hidden
    )


def _one_of_each_machine(fill: Callable[[], tuple[Handle, int]]) -> tuple[Handle, int]:
    """Let the first rank of each machine fill its memory, and tell the others where it is."""
    distributed = torch.distributed
    machines: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(machines, _machine())
    rank = distributed.get_rank()
    leader = machines.index(machines[rank])
    found: tuple[Handle, int] | str = ""
    if rank == leader:
        try:
            found = fill()
        except Exception as error:  # noqa: BLE001 the other ranks wait for an answer, whatever it is
            found = str(error) or type(error).__name__
    answers: list[Any] = [None] * len(machines)
    distributed.all_gather_object(answers, found)
    answer = answers[leader]
    if isinstance(answer, str):
        raise PitstopError(f"rank {leader}: {answer}")
    return answer[0], answer[1]


def _machine() -> str:
    """The same for all ranks that can open each other's memory."""
    return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
