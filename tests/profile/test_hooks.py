"""Every hook is listed, and leaves torch as it was."""

import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

from pitstop.profile import hooks, recorder  # noqa: E402
from pitstop.profile.collect import collect  # noqa: E402
from pitstop.profile.options import Options  # noqa: E402
from pitstop.profile.shown import hooks_shown  # noqa: E402

PATCHED = (
    (DataLoader, "__init__"),
    (DataLoader, "__iter__"),
    (_BaseDataLoaderIter, "__next__"),
    (torch.optim.Optimizer, "__init__"),
    (torch.autograd, "backward"),
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.nn.utils.clip_grad, "clip_grad_norm_"),
    (torch.amp.GradScaler, "scale"),
    (torch.amp.GradScaler, "update"),
    (torch, "save"),
    (sys, "excepthook"),
    *((torch.distributed, name) for name in hooks.COLLECTIVES),
)


@pytest.fixture
def recording(tmp_path):
    """A recorder with all hooks, in this process."""
    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    found.undo = hooks.install(found)
    yield found
    found.close()


def test_every_patch_is_in_place_and_taken_away_again(tmp_path):
    before = [owner.__dict__.get(name) for owner, name in PATCHED]
    undo = hooks.install(recorder.Recorder(Options(str(tmp_path))))
    during = [owner.__dict__.get(name) for owner, name in PATCHED]
    undo()
    after = [owner.__dict__.get(name) for owner, name in PATCHED]
    assert all(old is not new for old, new in zip(before, during, strict=True))
    assert all(old is new for old, new in zip(before, after, strict=True))


def test_a_function_with_two_homes_stays_one_function(recording):
    assert torch.distributed.all_reduce is torch.distributed.distributed_c10d.all_reduce


def test_show_hooks_names_each_with_what_it_is_for():
    shown = hooks_shown().splitlines()
    assert [line.split()[0] for line in shown] == [hook.__name__ for hook in hooks.HOOKS]
    assert all(len(line.split()) > 5 for line in shown)


def test_another_thread_is_not_listened_to(recording, tmp_path):
    def iterate():
        list(DataLoader(TensorDataset(torch.zeros(8, 1)), batch_size=2))

    thread = threading.Thread(target=iterate)
    thread.start()
    thread.join()
    recording.close()
    assert collect(tmp_path, 0)[0].loaders == ()


def test_a_loader_built_again_for_each_epoch_is_one_loader(recording, tmp_path):
    data = TensorDataset(torch.zeros(8, 1))
    for _ in range(3):
        for _ in DataLoader(data, batch_size=2):
            pass
    recording.close()
    (loader,) = collect(tmp_path, 0)[0].loaders
    assert (loader.starts, loader.batches) == (3, 12)


def test_collectives_count_once_where_one_calls_another(monkeypatch, tmp_path):
    clock = iter(range(0, 1_000_000, 1000))
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: next(clock) * 1000)
    monkeypatch.setattr(torch.distributed, "broadcast", lambda: None)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: [torch.distributed.broadcast()])
    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    undo = hooks.collectives(found)
    torch.distributed.barrier()
    undo()
    found.mark_ends()
    found.close()
    (step,) = collect(tmp_path, 0)[0].steps
    assert step.collective_ms == 1.0  # one tick of the clock from its begin to its end


def test_a_backward_pass_that_did_not_run_was_waiting_for_other_ranks(monkeypatch, tmp_path):
    wall, own = iter(range(0, 1_000_000, 5000)), iter([0, 2_000_000])
    monkeypatch.setattr(recorder, "perf_counter_ns", lambda: next(wall) * 1000)
    monkeypatch.setattr(recorder, "thread_time_ns", lambda: next(own))
    monkeypatch.setattr(recorder, "_has_peers", lambda: True)
    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    undo = hooks.backward(found)
    torch.ones(1, requires_grad=True).sum().backward()
    undo()
    found.mark_ends()
    found.close()
    (step,) = collect(tmp_path, 0)[0].steps
    assert (step.backward_ms, step.collective_ms) == (5.0, 3.0)
