"""The shortest way to a kernel: taken by all threads, and only where Triton is known."""

import sys
from threading import Barrier, Thread
from types import SimpleNamespace

import pytest
import torch

from pitstop import internals
from pitstop.parts import launch

THREADS = 2


class Kernel:
    """Stands in for a Triton kernel: two threads meet in its first launch."""

    def __init__(self, meet):
        self.meet, self.slow, self.fast = meet, [], []

    def __getitem__(self, grid):
        def first(*arguments, **options):
            self.slow.append(arguments)
            self.meet()
            return SimpleNamespace(
                run=lambda *all_of_it: self.fast.append(all_of_it),
                function="function",
                packed_metadata="metadata",
            )

        return first


@pytest.fixture
def on_a_device(monkeypatch):
    monkeypatch.setattr(internals, "current_device", lambda: 0)
    monkeypatch.setattr(internals, "current_stream", lambda _: 7)
    internals.launch_is_known.cache_clear()
    yield
    internals.launch_is_known.cache_clear()


def made_with(kernel):
    return launch.Launch(kernel, (1, 1, 1), 4, 0, (5, True))


def test_two_threads_may_launch_a_kernel_first(on_a_device):
    kernel = Kernel(Barrier(THREADS, timeout=60).wait)
    launched, x = made_with(kernel), torch.zeros(64)
    threads = [Thread(target=launched, args=(x,)) for _ in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    launched(x)
    assert len(kernel.slow) == THREADS
    hooks = (None, None, None)
    assert kernel.fast == [
        (1, 1, 1, 7, "function", "metadata", *hooks, x.data_ptr(), 5, True),
    ]


@pytest.mark.parametrize(
    ("version", "direct"),
    [("3.2.0", False), ("3.3.1", True), ("3.9.0", True), ("3.10.0", False), ("4.0", False)],
)
def test_an_unknown_triton_launches_by_itself(on_a_device, monkeypatch, version, direct):
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=version))
    kernel = Kernel(lambda: None)
    launched, x = made_with(kernel), torch.zeros(64)
    for _ in range(3):
        launched(x)
    assert (len(kernel.slow), len(kernel.fast)) == ((1, 2) if direct else (3, 0))
