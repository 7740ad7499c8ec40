"""Device: the GPU, as far as graphs need it. Tests on a CPU put a tape in its place."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet

import torch

from pitstop import internals

WAITING = "called a synchronizing CUDA operation"  # how torch's warning begins
PROTOTYPE = "Synchronization debug mode is a prototype"  # another, of this watch itself


class Device(Protocol):
    """Where graphs are captured; all graphs of one model share its memory pool."""

    def is_free(self) -> bool:
        """Whether a call now is an ordinary one on this device."""

    def stream(self) -> int:
        """The stream that work goes to now."""

    def capture(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Run without computing; what computes it again and again, and what was returned."""

    def waits(self) -> Any:
        """A context that gives a list, filled at its end with what waited for the device."""


class Cuda:
    """A real one."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._living: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
        self._handle = torch.cuda.graph_pool_handle()

    def is_free(self) -> bool:
        """Whether it is the current one, and nobody captures already."""
        current = torch.cuda.current_device() == self._device.index
        return current and not torch.cuda.is_current_stream_capturing()

    def stream(self) -> int:
        """Its number in the driver."""
        return int(internals.current_stream(self._device.index))

    def capture(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Into the pool that all graphs share. No kernel runs, and no random number is drawn."""
        stream, random = torch.cuda.current_stream(), torch.cuda.get_rng_state(self._device)
        graph = torch.cuda.CUDAGraph()
        capturing = torch.cuda.graph(
            graph, pool=self._pool(), capture_error_mode="thread_local"
        )  # other threads, which pin batches, may go on
        try:
            with capturing:
                result = run()
        except BaseException:
            torch.cuda.set_stream(stream)  # torch leaves its own current where a capture fails
            self._end_capturing()
            torch.cuda.set_rng_state(random, self._device)
            raise
        self._living.add(graph)
        return graph.replay, result

    def _pool(self) -> Any:
        """The pool of all that live; torch lets one go with its last graph, and so do we."""
        if not self._living:
            self._handle = torch.cuda.graph_pool_handle()
        return self._handle

    def _end_capturing(self) -> None:
        """The generator still waits for the end of a capture that failed; another one ends it."""
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            torch.zeros(1, device=self._device)

    @contextmanager
    def waits(self) -> Iterator[list[str]]:
        """By torch's own watch, which warns."""
        found: list[str] = []
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield found
            finally:
                torch.cuda.set_sync_debug_mode(before)
        for each in caught:
            if str(each.message).startswith(WAITING):
                found.append(f"{each.filename}:{each.lineno}")
            elif not str(each.message).startswith(PROTOTYPE):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
