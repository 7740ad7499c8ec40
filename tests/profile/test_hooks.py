"""Every hook is listed, and leaves torch as it was."""

import contextlib
import inspect
import pickle
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.testing import CompileCounter  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data._utils import worker  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

from pitstop.profile.hooks import hooks  # noqa: E402
from pitstop.profile.hooks.modules import KNOWN_AFTER  # noqa: E402
from pitstop.profile.hooks.shown import hooks_shown  # noqa: E402
from pitstop.profile.read.collect import collect  # noqa: E402
from pitstop.profile.record import recorder  # noqa: E402
from pitstop.profile.start.options import Options  # noqa: E402
from pitstop.profile.steps.scope import Scope  # noqa: E402

PATCHED = (
    (DataLoader, "__init__"),
    (DataLoader, "__iter__"),
    (_BaseDataLoaderIter, "__next__"),
    (torch.optim.Optimizer, "__init__"),
    (torch.autograd, "backward"),
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.nn.utils.clip_grad, "clip_grad_norm_"),
    (torch.amp.GradScaler, "scale"),
    (torch.amp.GradScaler, "_maybe_opt_step"),
    (torch.amp.GradScaler, "update"),
    (torch, "save"),
    (torch, "compile"),
    *((torch.distributed, name) for name in hooks.COLLECTIVES),
)


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


def test_what_the_script_put_over_a_patch_of_ours_stays(recording, monkeypatch):
    def save(*_):
        pass

    monkeypatch.setattr(torch, "save", save)
    recording.close()
    assert torch.save is save


def test_patched_classes_look_and_pickle_as_before(recording):
    recording.undo()
    names = {owner: inspect.signature(owner) for owner in (DataLoader, torch.optim.Optimizer)}
    recording.undo = hooks.install(recording)
    assert {owner: inspect.signature(owner) for owner in names} == names
    assert pickle.loads(pickle.dumps(worker._worker_loop)) is worker._worker_loop

    class Own(DataLoader):
        def __init__(self, size):
            super().__init__(dataset=list(range(size)), batch_size=2)

    assert isinstance(Own(4), DataLoader)
    assert [batch.tolist() for batch in Own(4)] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match=r"DataLoader.__init__\(\) missing 1 required"):
        DataLoader()


def test_dynamo_compiles_as_many_graphs_as_without_us(recording, recwarn):
    def train(loss):
        loss = torch.amp.GradScaler("cpu", enabled=False).scale(loss * 2)
        torch._dynamo.graph_break()
        optimizer.step()
        return loss + torch.nn.utils.clip_grad_norm_([loss], 1.0)

    def compiled():
        torch._dynamo.reset()
        counter = CompileCounter()
        torch.compile(train, backend=counter)(torch.ones(()))
        said = [str(each.message) for each in recwarn.list]
        recwarn.clear()
        return counter.op_count, counter.frame_count, said

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1e-3)
    with_us = compiled()
    recording.close()
    assert with_us == compiled()


def test_a_model_that_cannot_be_hashed_is_called_as_before(recording):
    class Unhashable(torch.nn.Module):
        __hash__ = None

        def forward(self, x):
            return x + 1

    model = Unhashable()
    assert sum(model(0) for _ in range(2 * KNOWN_AFTER)) == 2 * KNOWN_AFTER
    assert recording.alive


def test_an_optimizer_step_that_raises_hides_no_later_wait(recording, tmp_path):
    class Raises(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            if next(raises):
                raise MemoryError

    raises = iter([False, True, False, False])
    optimizer = Raises([torch.zeros(1, requires_grad=True)], 1e-3)
    for _ in DataLoader(TensorDataset(torch.zeros(4, 1))):
        with contextlib.suppress(MemoryError):
            optimizer.step()
    recording.close()
    steps = collect(tmp_path, 0)[0].steps
    assert len(steps) == 3
    assert steps[-1].data_wait_ms > 0


def test_of_what_cuda_says_the_first_line_is_told(recording, capsys):
    recording.fail(RuntimeError("CUDA error: an illegal memory access\nSearch for `x' in y\n"))
    assert capsys.readouterr().err == (
        "pitstop: recording stopped: RuntimeError: CUDA error: an illegal memory access\n"
    )


def test_a_failure_of_ours_is_one_line_and_leaves_torch_as_it_was(recording, capsys):
    recording.steps = None
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1e-3)
    optimizer.step()
    optimizer.step()
    assert capsys.readouterr().err.count("pitstop: recording stopped: ") == 1
    made = torch.optim.Optimizer.__init__.__code__.co_filename
    assert made == inspect.getfile(torch.optim.Optimizer)  # not ours, wherever the clone lies
    assert vars(recording) == {"alive": False, "thread": recorder.NO_THREAD}


def bad_batch():
    class Bad(TensorDataset):
        def __getitem__(self, index):
            raise KeyError(index)

    return next(iter(DataLoader(Bad(torch.zeros(4, 1)))))


@pytest.mark.parametrize(
    "fails",
    [
        bad_batch,
        lambda: DataLoader([], shuffle=True),
        lambda: torch.optim.SGD([], 1e-3),
        lambda: torch.zeros(2).backward(),
        lambda: torch.autograd.backward(tensors=torch.zeros(2)),
        lambda: torch.save(lambda: None, "/dev/null"),
        lambda: torch.nn.utils.clip_grad_norm_(3),
    ],
)
def test_an_error_has_its_own_traceback_wherever_it_is_caught(fails, recording):
    def frames():
        with pytest.raises(Exception) as caught:  # noqa: PT011 whichever it is
            fails()
        return [(each.path, each.lineno, each.name) for each in caught.traceback]

    with_us = frames()
    recording.close()
    assert with_us == frames()


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


def test_a_step_in_another_thread_ends_no_step(recording, tmp_path):
    class Raises(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            if next(raises):
                raise MemoryError

    raises = iter([True, False, False])
    optimizer = Raises([torch.zeros(1, requires_grad=True)], 1e-3)
    with contextlib.suppress(MemoryError):
        optimizer.step()
    thread = threading.Thread(target=optimizer.step)
    thread.start()
    thread.join()
    optimizer.step()
    recording.close()
    assert len(collect(tmp_path, 0)[0].steps) == 1


def test_a_model_that_is_exported_is_not_called_by_the_script(recording, tmp_path):
    model = torch.nn.Linear(2, 2)
    for _ in range(2 * KNOWN_AFTER):
        model(torch.ones(1, 2))
    torch.export.export(model, (torch.ones(1, 2),), strict=False)
    recording.close()
    assert len(collect(tmp_path, 0)[0].steps) == 2 * KNOWN_AFTER - 1


def test_when_all_is_seen_only_a_loss_that_is_not_finite_ends_the_rest(tmp_path):
    scope = Scope(Options(str(tmp_path), warmup=0, baseline=0, inspect=1))
    scope._sampled = 10**6  # enough
    scope.wants(7)
    assert scope.rests_until == sys.maxsize
    loss = (torch.zeros(1, requires_grad=True) / 0).sum()
    assert list(scope.backward_begins(loss, 1.0, 7)) == []
    assert scope.rests_until == sys.maxsize
    list(scope.backward_begins(loss, loss.item(), 7))
    assert scope.rests_until <= 8


def test_collectives_count_once_where_one_calls_another(monkeypatch, tmp_path):
    clock = iter(range(0, 1_000_000, 1000))
    monkeypatch.setattr("pitstop.profile.read.clock.perf_counter_ns", lambda: next(clock) * 1000)
    monkeypatch.setattr(torch.distributed, "broadcast", lambda: None)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: [torch.distributed.broadcast()])
    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    undo = hooks.collectives(found)
    torch.distributed.barrier()
    undo()
    found.cut("marked")
    found.close()
    (step,) = collect(tmp_path, 0)[0].steps
    assert step.collective_ms == 1.0  # one tick of the clock from its begin to its end


def test_a_backward_pass_that_did_not_run_was_waiting_for_other_ranks(monkeypatch, tmp_path):
    wall, own = iter(range(0, 1_000_000, 5000)), iter([0, 2_000_000])
    monkeypatch.setattr("pitstop.profile.read.clock.perf_counter_ns", lambda: next(wall) * 1000)
    monkeypatch.setattr("pitstop.profile.hooks.exchange.thread_time_ns", lambda: next(own))
    monkeypatch.setattr("pitstop.profile.hooks.exchange._has_peers", lambda: True)
    found = recorder.Recorder(Options(str(tmp_path), inspect=0))
    undo = hooks.backward(found)
    torch.ones(1, requires_grad=True).sum().backward()
    undo()
    found.cut("marked")
    found.close()
    (step,) = collect(tmp_path, 0)[0].steps
    assert (step.backward_ms, step.collective_ms) == (5.0, 3.0)


def test_the_scaler_of_another_thread_takes_no_skipped_step_away(recording):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1e-3)
    assert recording.begin_scaled_step()
    other = threading.Thread(target=recording.begin_scaled_step)
    other.start()
    other.join()
    recording.end_scaled_step(optimizer)
    assert recording.steps.done == 1


def test_a_warning_of_the_scaler_names_the_line_that_asks_for_a_step(recording):
    class TakesScaler(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, grad_scaler=None):
            return None

    def places():
        parameter = torch.zeros(1, requires_grad=True)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(parameter.sum()).backward()
        with pytest.warns(FutureWarning) as warned:
            scaler.step(TakesScaler([parameter], 1e-3))
        return {(each.filename, each.lineno) for each in warned}

    with_us = places()
    recording.undo()
    assert with_us == places()  # torch 2.6 names its own line
