"""A dataset in memory, once for all processes."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import namedtuple
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from pitstop.core.errors import PitstopError
from pitstop.parts import ram_cache
from pitstop.parts.cache import packing

Pair = namedtuple("Pair", "low high")


class Samples(Dataset):
    """Samples of every kind of value, of which it counts the reads of this process."""

    def __init__(self, length=7):
        self.length = length
        self.reads = 0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        self.reads += 1
        made = torch.Generator().manual_seed(index)
        return {
            "frames": torch.rand(2, 3, 4 + index, 5, generator=made),
            "half": torch.rand(3, generator=made).bfloat16(),
            "bits": torch.arange(index) % 2 == 0,  # empty for the first
            "channels_last": torch.rand(1, 2, 3, 4, generator=made).to(
                memory_format=torch.channels_last
            ),
            "voxels": np.full((2, index + 1), index, dtype=np.float16),
            "turned": np.arange(12).reshape(3, 4).T[::2],
            "pair": Pair(torch.tensor(index), np.float32(index)),
            "name": f"clip {index}",
            "label": index,
            "jpeg": bytes([index]) * 100,
        }


class Noisy(Samples):
    def __getitem__(self, index):
        return torch.rand(3)


class Large(Samples):
    def __getitem__(self, index):
        return torch.full((1 << 20,), index, dtype=torch.uint8)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def same(left, right):
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and left.equal(right)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return type(left) is type(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("views", [False, True])
def test_samples_are_what_the_dataset_gives_and_are_read_no_more(workers, views):
    dataset = Samples()
    cache = ram_cache(dataset, workers=workers, views=views)
    reads = dataset.reads
    assert len(cache) == cache.held == 7
    assert all(same(cache[index], Samples()[index]) for index in [*range(7), -1 % 7, 3])
    assert same(cache[-1], Samples()[6])
    assert len(list(cache)) == 7
    assert dataset.reads == reads


def test_what_is_written_to_a_sample_is_not_in_the_cache():
    cache = ram_cache(Samples(), workers=0)
    cache[2]["frames"].zero_()
    cache[2]["voxels"][:] = 9
    assert same(cache[2], Samples()[2])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read_the_memory_and_not_the_dataset(method):
    cache = ram_cache(Large(16), workers=0)
    loader = DataLoader(cache, batch_size=4, num_workers=2, multiprocessing_context=method)
    assert torch.cat(list(loader))[:, 0].tolist() == list(range(16))


def test_eight_workers_hold_one_copy():
    cache = ram_cache(Large(64), workers=2)  # 64 MiB
    loader = DataLoader(cache, batch_size=8, num_workers=8, persistent_workers=True)
    for _ in range(2):
        assert len(list(loader)) == 8
    workers = multiprocessing.active_children()
    maps = [_memory_of(each.pid) for each in (multiprocessing.current_process(), *workers)]
    assert len(workers) >= 8
    assert 0.9 * cache.held_bytes < sum(maps) < 1.1 * cache.held_bytes
    del loader
    gc.collect()


def _memory_of(pid):
    """The proportional share that a process has of the cache."""
    shares = psutil.Process(pid).memory_maps()
    return sum(each.pss for each in shares if "pitstop-ram-cache" in each.path)


def test_what_does_not_fit_is_read_from_the_dataset_each_time():
    dataset = Large(8)
    cache = ram_cache(dataset, workers=0, budget_bytes=3_500_000)
    assert cache.held == 3
    assert repr(cache) == f"RamCache(3 of 8 samples, {cache.held_bytes / 2**20:.1f} MiB)"
    assert [int(sample[5]) for sample in cache] == list(range(8))


def test_then_is_applied_at_each_read():
    cache = ram_cache(Samples(), workers=0, then=lambda sample: sample["label"] + random.random())
    assert int(cache[3]) == 3
    assert cache[3] != cache[3]


def test_random_numbers_of_the_user_stay_where_they_are():
    torch.manual_seed(1)
    ram_cache(Samples(), workers=2)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert drawn.equal(torch.rand(1))


@pytest.mark.parametrize(
    ("dataset", "options", "words"),
    [
        (Samples(0), {}, "Samples is empty: look at its folder and split"),
        (Noisy(), {}, "sample 0 differs when it is read twice"),
        (Large(3), {"budget_bytes": 1000}, "no sample fits into 1000 B"),
        (iter([]), {}, "has no length"),
    ],
)
def test_refuses_in_one_line(dataset, options, words):
    before = open_files()
    with pytest.raises(PitstopError, match=words):
        ram_cache(dataset, workers=0, **options)
    gc.collect()
    assert open_files() == before


class Dies(Large):
    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Broken(Large):
    def __getitem__(self, index):
        if index == 3:
            raise OSError("clip 3 is truncated")
        return super().__getitem__(index)


@pytest.mark.parametrize(("dataset", "error"), [(Dies(8), BrokenProcessPool), (Broken(8), OSError)])
def test_a_reader_that_fails_or_is_killed_ends_the_filling(dataset, error):
    before = open_files()
    with pytest.raises(error):
        ram_cache(dataset, workers=2)
    gc.collect()
    assert open_files() == before


def test_random_samples_are_seen_also_where_several_processes_read():
    with pytest.raises(PitstopError, match="differs when it is read twice"):
        ram_cache(Noisy(), workers=2)


def test_a_cache_that_nobody_uses_any_more_leaves_no_open_file():
    before = open_files()
    cache = ram_cache(Large(2), workers=0)
    assert open_files() > before
    del cache
    gc.collect()
    assert open_files() == before


def test_every_sample_lies_at_an_aligned_place():
    parts = packing.pack({"a": torch.ones(3), "b": np.ones(5)})
    assert packing.length(parts) % packing.ALIGNED == 0


RANKS = Path(__file__).parent / "ranks.py"


@pytest.mark.slow
def test_two_ranks_with_eight_workers_share_one_copy_and_nothing_stays():
    before = set(Path("/dev/shm").iterdir())
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", str(RANKS)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split()) == ["rank0:reads-35", "rank1:reads-0", "share-ok"]
    assert set(Path("/dev/shm").iterdir()) <= before


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["the owner", "a worker"])
def test_nothing_stays_when_a_process_is_killed(victim):
    with subprocess.Popen(
        [sys.executable, Path(__file__).parent / "killed.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as training:
        try:
            pids = [int(each) for each in training.stdout.readline().split()]
            assert all(_memory_of(pid) for pid in pids[1:])  # workers do read it
            others = [psutil.Process(pid) for pid in pids[1:]]
            os.kill(pids[victim], signal.SIGKILL)
            _, alive = psutil.wait_procs(others, timeout=60)
        finally:
            training.kill()
    assert alive == []
    names = [each.name for each in Path("/dev/shm").iterdir()]
    assert [name for name in names if any(str(pid) in name for pid in (*pids, "pitstop"))] == []
